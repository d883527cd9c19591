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

-- Until when a mailbox is paused, and why; 0 when it is not. A pause that began in a time to come is none: the clock stepped
-- back, and nobody meant it to last until then.
local function pause_at(packed, now)
  if not packed then return 0, '' end
  local ends, since, _, why = struct.unpack(PAUSE, packed)
  if ends <= now or since > now + MINUTE then return 0, '' end
  return ends, why
end

local function read_windows(packed)
  local w = {}
  if packed and #packed ~= FORMER_HEADER_BYTES then
    w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total, w.live, w.run =
      struct.unpack(HEADER, packed)
  else
    w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total, w.live, w.run =
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, RUN
  end
  return w
end

local function pack_windows(w)
  return struct.pack(HEADER, w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total,
    w.live, w.run)
end

-- Keep both keys for as long as anything in them matters.
local function keep(state, pause_left)
  redis.call('PEXPIRE', state, floor(math.max(STATE_TTL, pause_left + DAY)))
  redis.call('PEXPIRE', log_of(state), STATE_TTL)
end
