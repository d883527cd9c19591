-- Keep a place in flight, and what it uploads, through a call that may take longer than a small one.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  lease:<reservation id>   ARGV[2]  a lease in ms
-- ARGV[3]  by how many ms the call may take longer   ARGV[4]  the moment in ms; the server's own time when left out
--
-- Returns 1 when its lease counts from now on, 0 when the reservation is not in flight (released, settled, forgotten).

-- include words.lua
-- include uploads.lua

local state, lease, lease_ms, more, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), moment(ARGV[4])
local kept = redis.call('HMGET', state, lease, 'uploads')
if not kept[1] then return 0 end
local granted, stamp, recipients, generation = struct.unpack(LEASE, kept[1])
redis.call('HSET', state, lease, struct.pack(EXTENDED, granted, stamp, recipients, generation, now, more))
if kept[2] then date_upload(state, kept[2], lease, now + more + lease_ms, now) end
return 1
