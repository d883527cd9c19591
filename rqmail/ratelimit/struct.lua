-- Redis and Valkey bring `struct`. Where a stand-in for them does not (fakeredis), the fields we use, packed the same way:
-- B and I4, little-endian; d, a double without infinities; c0, as many bytes as the number before it says.
local struct = struct or (function()
  local char, byte, whole = string.char, string.byte, math.floor

  local function put(number, size)
    local bytes = {}
    for i = 1, size do bytes[i], number = char(number % 256), whole(number / 256) end
    return table.concat(bytes)
  end

  local function get(text, at, size)
    local number = 0
    for i = at + size - 1, at, -1 do number = number * 256 + byte(text, i) end
    return number
  end

  local function put_double(number)
    if number == 0 then return put(0, 8) end
    local sign = 0
    if number < 0 then sign, number = 128, -number end
    local mantissa, exponent = math.frexp(number)
    mantissa, exponent = (mantissa * 2 - 1) * 2 ^ 52, exponent + 1022
    local top = whole(mantissa / 2 ^ 48)
    return put(mantissa % 2 ^ 48, 6) .. char((exponent % 16) * 16 + top, sign + whole(exponent / 16))
  end

  local function get_double(text, at)
    local last, top = byte(text, at + 7), byte(text, at + 6)
    local exponent = (last % 128) * 16 + whole(top / 16)
    if exponent == 0 then return 0 end
    local mantissa = 1 + ((top % 16) * 2 ^ 48 + get(text, at, 6)) / 2 ^ 52
    return math.ldexp(mantissa, exponent - 1023) * (last >= 128 and -1 or 1)
  end

  local function fields(format) return string.gmatch(format, '%a%d?') end

  local stand_in = {}
  function stand_in.pack(format, ...)
    local packed, values, at = {}, { ... }, 0
    for field in fields(format) do
      at = at + 1
      local value = values[at]
      packed[at] = field == 'd' and put_double(value) or field == 'c0' and value or put(value, field == 'B' and 1 or 4)
    end
    return table.concat(packed)
  end
  function stand_in.unpack(format, text, at)
    local values, count = {}, 0
    at = at or 1
    for field in fields(format) do
      local value, size
      if field == 'd' then value, size = get_double(text, at), 8
      elseif field == 'c0' then
        size = values[count]
        value, count = string.sub(text, at, at + size - 1), count - 1
      else
        size = field == 'B' and 1 or 4
        value = get(text, at, size)
      end
      count, at = count + 1, at + size
      values[count] = value
    end
    values[count + 1] = at
    return unpack(values, 1, count + 1)
  end
  return stand_in
end)()

