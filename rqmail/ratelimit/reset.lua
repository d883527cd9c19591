-- Forget what was counted for a mailbox. What is in flight stays in flight, but has nothing left to give back.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  1 for rolling windows, 0 for fixed ones
-- ARGV[2]  the moment in ms; the server's own time when left out
--
-- Returns 1. Also heals a mailbox whose keys hold something else than ours.

-- include words.lua
-- include uploads.lua
-- include windows.lua

local state, now = KEYS[1], moment(ARGV[2])
local mailbox = mailbox_of(state)
local read, w = pcall(function() return read_windows(redis.call('HGET', state, 'windows')) end)
if not read then
  redis.call('DEL', state)
  w = read_windows(nil)
end
disown_leases(state)
start_over(w, ARGV[1] == '1' and ROLLING or FIXED)
w.run = RUN
redis.call('HSET', state, 'windows', pack_windows(w))
redis.call('HDEL', state, 'uploads')
redis.call('DEL', log_of(state), minute_key(mailbox, now), day_key(mailbox, now),
  minute_key(mailbox, now - MINUTE), day_key(mailbox, now - DAY))
if redis.call('PTTL', state) < STATE_TTL then redis.call('PEXPIRE', state, STATE_TTL) end
return 1
