-- Count a call that went out while Redis could not be asked. No limit is looked at: it has happened.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  lease:<reservation id>   ARGV[2]  recipients
-- ARGV[3]  the moment in ms; the server's own time when left out or ''   ARGV[4]  bytes it uploaded, where it did
--
-- Returns 1 when counted now, 0 when it was counted already: the script had run, only its answer was lost, or nothing is
-- known of the mailbox and its history will tell.

-- include words.lua
-- include uploads.lua
-- include windows.lua

local state, lease, recipients, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), moment(ARGV[3])
local kept = redis.call('HMGET', state, 'windows', lease)
local w = read_windows(kept[1])
if kept[1] and kept[2] then
  w.live = w.live - 1
  redis.call('HDEL', state, lease)
  if ARGV[4] then date_upload(state, redis.call('HGET', state, 'uploads'), lease, now, now) end
  redis.call('HSET', state, 'windows', pack_windows(w))
  return 0
end
if w.filled == 0 or condition(state, w, w.filled, now, true, true) == LOST then return 0 end

local mailbox = mailbox_of(state)
local minute, day = minute_key(mailbox, now), day_key(mailbox, now)
redis.call('SET', minute, counter(minute) + 1, 'EX', MINUTE_TTL)
redis.call('SET', day, counter(day) + recipients, 'EX', DAY_TTL)
local stamp = math.max(now, w.latest)
if w.filled == ROLLING then
  local slots = pass_slots(state, w, stamp)
  count_recipients(state, w, slots, recipients)
  write_call(state, w, stamp)
end
w.latest = stamp
redis.call('HSET', state, 'windows', pack_windows(w))
if ARGV[4] then
  local uploads = read_uploads(redis.call('HGET', state, 'uploads'), now)
  uploads[#uploads + 1] = { now, tonumber(ARGV[4]), string.sub(lease, 7) }
  write_uploads(state, uploads)
end
keep(state, math.max(0, redis.call('PTTL', state) - DAY))
return 1
