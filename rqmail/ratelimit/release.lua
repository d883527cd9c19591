-- Give back just what one reservation took, to the buckets it took it from; a second time gives nothing.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  lease:<reservation id>
--
-- Returns 1 when given back, 0 when the reservation is not in flight (released, settled, forgotten).

-- include words.lua
-- include uploads.lua
-- include windows.lua

local state, lease = KEYS[1], ARGV[1]
local kept = redis.call('HMGET', state, 'windows', lease)
if not kept[1] or not kept[2] then return 0 end

local w = read_windows(kept[1])
give_back(state, w, lease, kept[2])
redis.call('HSET', state, 'windows', pack_windows(w))
return 1
