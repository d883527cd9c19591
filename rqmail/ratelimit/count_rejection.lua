-- Count a message of the mailbox that the provider refused for good; a send that is settled ends the row.
--
-- KEYS[1]  the mailbox's state key
--
-- Returns how many there were in a row.

-- include words.lua

local state = KEYS[1]
local count = redis.call('HINCRBY', state, 'rejections', 1)
keep(state, math.max(0, redis.call('PTTL', state) - DAY))
return count
