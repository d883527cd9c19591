-- Give back just what one reservation took, to the buckets it took it from; a second time gives nothing.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  lease:<reservation id>
--
-- Returns 1 when given back, 0 when the reservation is not in flight (released, settled, forgotten).
-- No counter goes below zero, and an expired one stays expired.

-- include words.lua

local state, lease = KEYS[1], ARGV[1]
local kept = redis.call('HMGET', state, 'windows', lease)
if not kept[1] or not kept[2] then return 0 end

local w = read_windows(kept[1])
local granted, stamp, recipients, generation = struct.unpack(LEASE, kept[2])
local mailbox = mailbox_of(state)

local function take_back(key, amount)
  local held = tonumber(redis.call('GET', key) or 0) or 0
  if held > 0 then redis.call('DECRBY', key, math.min(held, amount)) end
end

if generation == w.generation then
  take_back(minute_key(mailbox, granted), 1)
  take_back(day_key(mailbox, granted), recipients)
  if w.filled == ROLLING then
    local slot, freed = floor(stamp / SLOT), 0
    if slot == w.slot then
      freed = math.min(recipients, w.slot_used)
      w.slot_used = w.slot_used - freed
    elseif slot > w.slot - SLOTS then
      local at = (slot % SLOTS) * 4
      local bytes = redis.call('GETRANGE', log_of(state), at, at + 3)
      if #bytes == 4 then
        local held = struct.unpack('<I4', bytes)
        freed = math.min(recipients, held)
        redis.call('SETRANGE', log_of(state), at, struct.pack('<I4', held - freed))
      end
    end
    w.total = w.total - freed
    forget_call(state, w, stamp)
  end
end
w.live = w.live - 1
redis.call('HDEL', state, lease)
redis.call('HSET', state, 'windows', pack_windows(w))
return 1
