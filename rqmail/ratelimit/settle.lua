-- Say that a reservation was really used: its budget stays taken, its place in flight is free.
--
-- KEYS[1]  the mailbox's state key   KEYS[2], ...  those of its scopes   ARGV[1]  lease:<reservation id>   ARGV[2]  '1' when the provider accepted the mail
-- ARGV[3]  the moment in ms; the server's own time when left out
--
-- Returns 1 when settled, 0 when the reservation is not in flight. An acceptance granted after a pause ends its slow
-- probing, and any acceptance a row of rejections; an outcome nobody knows ends neither.

-- include words.lua
-- include uploads.lua

local state, lease = KEYS[1], ARGV[1]
local kept = redis.call('HMGET', state, 'windows', 'pause', lease, 'uploads')
if kept[4] then
  local now = moment(ARGV[3])
  date_upload(state, kept[4], lease, now, now)
end
for i = 2, #KEYS do
  local scope = redis.call('HMGET', KEYS[i], 'windows', lease)
  if scope[1] and scope[2] then
    local theirs = read_windows(scope[1])
    theirs.live = theirs.live - 1
    redis.call('HDEL', KEYS[i], lease)
    redis.call('HSET', KEYS[i], 'windows', pack_windows(theirs))
  end
end
if not kept[1] or not kept[3] then return 0 end

local w = read_windows(kept[1])
w.live = w.live - 1
if ARGV[2] ~= '1' then
  redis.call('HDEL', state, lease)
elseif kept[2] and struct.unpack('<d', kept[3]) >= struct.unpack('<d', kept[2]) then
  redis.call('HDEL', state, lease, 'rejections', 'pause')
else
  redis.call('HDEL', state, lease, 'rejections')
end
redis.call('HSET', state, 'windows', pack_windows(w))
return 1
