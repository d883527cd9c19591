-- Stop a mailbox for all workers, twice as long for every failure in a row.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  the first pause in ms   ARGV[2]  the longest pause in ms   ARGV[3]  why
-- ARGV[4]  when the failed call was granted, in ms, or '': one granted before the last pause began is no new failure
-- ARGV[5]  the moment in ms; the server's own time when left out
--
-- Returns the ms chosen. A longer pause that runs already stays as it is.

-- include words.lua

local state, now = KEYS[1], moment(ARGV[5])
local ends, since, failures, why = 0, 0, 0, ''
local kept = redis.call('HGET', state, 'pause')
if kept then ends, since, failures, why = struct.unpack(PAUSE, kept) end
if since > now + MINUTE then ends, since = 0, 0 end -- the clock stepped back
local granted = tonumber(ARGV[4])
if granted and granted <= since then return math.max(1, math.ceil(ends - now)) end

local chosen = math.min(ARGV[1] * 2 ^ math.min(failures, 60), tonumber(ARGV[2]))
if now + chosen > ends then ends, why = now + chosen, ARGV[3] end
redis.call('HSET', state, 'pause', struct.pack(PAUSE, ends, now, failures + 1, #why, why))
keep(state, ends - now)
return math.ceil(chosen)
