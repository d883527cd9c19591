-- Count a call that went out while Redis could not be asked. No limit is looked at: it has happened.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  lease:<reservation id>   ARGV[2]  recipients
-- ARGV[3]  the moment in ms; the server's own time when left out
--
-- Returns 1 when counted now, 0 when it was counted already: the script had run, only its answer was lost, or nothing is
-- known of the mailbox yet and its history will tell.

-- include words.lua

local state, lease, recipients, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), moment(ARGV[3])
local kept = redis.call('HMGET', state, 'windows', lease)
local w = read_windows(kept[1])
if kept[2] then
  w.live = w.live - 1
  redis.call('HDEL', state, lease)
  redis.call('HSET', state, 'windows', pack_windows(w))
  return 0
end
if w.filled == 0 then return 0 end

local mailbox = mailbox_of(state)
local minute, day = minute_key(mailbox, now), day_key(mailbox, now)
redis.call('SET', minute, counter(minute) + 1, 'EX', MINUTE_TTL)
redis.call('SET', day, counter(day) + recipients, 'EX', DAY_TTL)
if w.filled == ROLLING then
  local stamp = math.max(now, w.latest)
  local slots = pass_slots(state, w, stamp)
  if slots then write_slots(state, slots) end
  write_call(state, w, math.max(w.capacity, w.length + 1), stamp)
  w.slot_used, w.total, w.latest = w.slot_used + recipients, w.total + recipients, stamp
end
redis.call('HSET', state, 'windows', pack_windows(w))
keep(state, math.max(0, redis.call('PTTL', state) - DAY))
return 1
