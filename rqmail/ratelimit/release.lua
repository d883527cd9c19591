-- Give back just what one reservation took, to the buckets and scopes it took it from; a second time gives nothing.
--
-- KEYS[1]  the mailbox's state key   KEYS[2], ...  those of its scopes   ARGV[1]  lease:<reservation id>
--
-- Returns 1 when given back, 0 when the reservation is not in flight (released, settled, forgotten).

-- include words.lua
-- include uploads.lua
-- include windows.lua

local lease, given = ARGV[1], 0
for i, state in ipairs(KEYS) do
  local kept = redis.call('HMGET', state, 'windows', lease)
  if kept[1] and kept[2] then
    local w = read_windows(kept[1])
    give_back(state, w, lease, kept[2])
    redis.call('HSET', state, 'windows', pack_windows(w))
    if i == 1 then given = 1 end
  end
end
return given
