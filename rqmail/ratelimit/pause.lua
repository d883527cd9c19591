-- Stop a mailbox for all workers; a longer pause that runs already stays as it is.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  for how many ms   ARGV[2]  why
-- ARGV[3]  the moment in ms; the server's own time when left out
--
-- Returns the ms that the mailbox stays paused.

-- include words.lua

local state, now = KEYS[1], moment(ARGV[3])
local ends, since, failures, why = 0, 0, 0, ''
local kept = redis.call('HGET', state, 'pause')
if kept then ends, since, failures, why = struct.unpack(PAUSE, kept) end
if since > now + MINUTE then ends = 0 end -- the clock stepped back
if now + ARGV[1] > ends then
  ends = now + ARGV[1]
  redis.call('HSET', state, 'pause', struct.pack(PAUSE, ends, now, failures, #ARGV[2], ARGV[2]))
  keep(state, ends - now)
end
return math.ceil(ends - now)
