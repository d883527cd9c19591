-- The words the scripts share; put where a script says `include`. Only what an `if` has not returned before pays for them.

-- The given moment, or else the server's own: one clock for all workers.
local function moment(given)
  if given and given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + time[2] / 1000
end

local function mailbox_of(state) return string.sub(state, 17) end
local function log_of(state) return 'mail:rate:log:' .. string.sub(state, 17) end
local function minute_key(mailbox, at) return 'mail:rate:min:' .. mailbox .. ':' .. floor(at / MINUTE) end
local function day_key(mailbox, at) return 'mail:rate:day:' .. mailbox .. ':' .. floor(at / DAY) end

-- A counter's value: 0 when missing, an error when it is no counter.
local function counter(key, value)
  value = value or redis.call('GET', key)
  if not value then return 0 end
  return tonumber(value) or error('WRONGTYPE ' .. key .. ' holds no number')
end

local function read_windows(packed)
  local w = {}
  if packed then
    w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total, w.live =
      struct.unpack(HEADER, packed)
  else
    w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total, w.live =
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  end
  return w
end

local function pack_windows(w)
  return struct.pack(HEADER, w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total, w.live)
end

-- Forget what was counted, not what is in flight; leases of an older generation give nothing back.
local function start_over(w, filled)
  w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total =
    filled, w.generation + 1, 0, 0, 0, 0, 0, 0, 0
end

local function read_slots(state)
  local bytes = redis.call('GETRANGE', log_of(state), 0, RING - 1)
  local slots = {}
  for i = 1, SLOTS do slots[i] = #bytes >= i * 4 and struct.unpack('<I4', bytes, i * 4 - 3) or 0 end
  return slots
end

local function write_slots(state, slots)
  local bytes = {}
  for i = 1, SLOTS do bytes[i] = struct.pack('<I4', slots[i]) end
  redis.call('SETRANGE', log_of(state), 0, table.concat(bytes))
end

-- Let the day move on to the slot of this moment. Writes nothing; answers all slots when a border was passed, else nil.
local function pass_slots(state, w, at)
  local current = floor(at / SLOT)
  if current <= w.slot then return nil end
  local slots
  if current - w.slot >= SLOTS then
    slots, w.total = {}, 0
    for i = 1, SLOTS do slots[i] = 0 end
  else
    slots = read_slots(state)
    slots[w.slot % SLOTS + 1] = w.slot_used
    for slot = w.slot + 1, current do
      w.total = w.total - slots[slot % SLOTS + 1]
      slots[slot % SLOTS + 1] = 0
    end
  end
  w.slot, w.slot_used = current, 0
  return slots
end

-- The earliest moment at which the rolling day holds at most `room` recipients of what it holds now.
local function day_frees(state, w, slots, room)
  slots = slots or read_slots(state)
  local held = w.total
  for slot = w.slot - SLOTS + 1, w.slot do
    held = held - (slot == w.slot and w.slot_used or slots[slot % SLOTS + 1])
    if held <= room then return (slot + SLOTS) * SLOT end
  end
  return (w.slot + SLOTS) * SLOT
end

-- The moment of the n-th newest call (1 is the newest), or nil when the log is gone.
local function nth_call(state, w, n)
  local at = RING + ((w.head - n) % w.capacity) * 8
  local bytes = redis.call('GETRANGE', log_of(state), at, at + 7)
  return #bytes == 8 and struct.unpack('<d', bytes) or nil
end

-- Keep both keys for as long as anything in them matters.
local function keep(state, pause_left)
  redis.call('PEXPIRE', state, floor(math.max(STATE_TTL, pause_left + DAY)))
  redis.call('PEXPIRE', log_of(state), STATE_TTL)
end

-- Split what is in flight at this moment into the ends of running leases, sorted, and the names of those that are over.
local function leases_at(state, now, lease_ms)
  local fields, ends, over = redis.call('HGETALL', state), {}, {}
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 6) == 'lease:' then
      local stop = struct.unpack('<d', fields[i + 1]) + lease_ms
      if stop > now then ends[#ends + 1] = stop else over[#over + 1] = fields[i] end
    end
  end
  table.sort(ends)
  return ends, over
end

-- Put a call at the end of the ring, which is emptied when all of it is over a minute old and grows with the limit.
local function write_call(state, w, capacity, stamp)
  local log = log_of(state)
  if stamp - w.latest >= MINUTE then
    w.head, w.length, w.capacity = 0, 0, capacity
  elseif w.capacity < capacity then
    local ring, calls = redis.call('GETRANGE', log, RING, -1), {}
    for n = w.length, 1, -1 do
      local at = ((w.head - n) % w.capacity) * 8
      calls[#calls + 1] = string.sub(ring, at + 1, at + 8)
    end
    redis.call('SETRANGE', log, RING, table.concat(calls))
    w.head, w.capacity = w.length, capacity
  end
  redis.call('SETRANGE', log, RING + w.head * 8, struct.pack('<d', stamp))
  w.head = (w.head + 1) % w.capacity
  if w.length < w.capacity then w.length = w.length + 1 end
end

-- Of more leases than a mailbox can have in flight, drop those over for so long that nobody will come to release them.
local function sweep(state, w, now, lease_ms)
  if w.live <= FEW_LEASES then return end
  local _, over = leases_at(state, now - LATE_RELEASE, lease_ms)
  for _, lease in ipairs(over) do redis.call('HDEL', state, lease) end
  w.live = w.live - #over
end

-- Take the call of that moment out of the ring; the newer ones close up. Calls of one moment are as good as each other.
local function forget_call(state, w, stamp)
  if stamp <= w.latest - MINUTE then return end
  local newer = {}
  for n = 1, w.length do
    local call = nth_call(state, w, n)
    if not call or call < stamp then return end
    if call == stamp then
      for i = 1, #newer do
        redis.call('SETRANGE', log_of(state), RING + ((w.head - i - 1) % w.capacity) * 8, struct.pack('<d', newer[i]))
      end
      w.head, w.length = (w.head - 1) % w.capacity, w.length - 1
      return
    end
    newer[n] = call
  end
end
