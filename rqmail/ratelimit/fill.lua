-- Count what was sent before, for a mailbox of which nothing that can be believed is known; of two at once only the first
-- counts.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  the limits, packed as LIMITS   ARGV[2]  the moment in ms
-- ARGV[3], ARGV[4], ARGV[5], ARGV[6], ...  moment in ms, recipients, lease:<reservation id> (or '') and bytes uploaded (0 for
--                        none) of what was sent, in order of time; calls older than two minutes may be summed at the start
--                        of their slot, uploads once their window has passed. A call with a lease and a moment to come is
--                        in flight and counts now
--
-- Returns 1 when filled, 0 when the mailbox was known.

-- include words.lua
-- include uploads.lua
-- include windows.lua

local _, _, _, lease_ms, rolling = struct.unpack(LIMITS, ARGV[1])
local state, now = KEYS[1], tonumber(ARGV[2])
local mailbox, filled = mailbox_of(state), rolling == 1 and ROLLING or FIXED
local minute, day = minute_key(mailbox, now), day_key(mailbox, now)
local counters = redis.call('MGET', minute, day)
local w = read_windows(redis.call('HGET', state, 'windows'))
if condition(state, w, filled, now, counters[1], counters[2]) == WHOLE then return 0 end
if w.latest > now + MINUTE then drop_days_to_come(mailbox, w.latest, now) end
start_over(w, filled)
w.run = RUN
disown_leases(state)

local slots, recent, uploads, calls, addressed = {}, {}, {}, 0, 0
local current = floor(now / SLOT)
for i = 1, SLOTS do slots[i] = 0 end
for i = 3, #ARGV, 4 do
  local told, recipients, lease, bytes = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2], tonumber(ARGV[i + 3])
  local at = math.min(told, now)
  local slot = floor(at / SLOT)
  if floor(at / MINUTE) == floor(now / MINUTE) then calls = calls + 1 end
  if floor(at / DAY) == floor(now / DAY) then addressed = addressed + recipients end
  if slot > current - SLOTS then
    slots[slot % SLOTS + 1] = slots[slot % SLOTS + 1] + recipients
    w.total = w.total + recipients
    if at > now - MINUTE then recent[#recent + 1] = at end
  end
  if lease ~= '' and told > now then
    redis.call('HSET', state, lease, struct.pack(REFILLED, now, now, recipients, w.generation, 1))
  end
  if bytes > 0 then uploads[#uploads + 1] = { told, bytes, string.sub(lease, 7) } end
  w.latest = at
end
write_uploads(state, uploads)

calls, addressed = math.max(calls, counter(minute, counters[1])), math.max(addressed, counter(day, counters[2]))
if calls > 0 then redis.call('SET', minute, calls, 'EX', MINUTE_TTL) end
if addressed > 0 or floor(w.latest / DAY) == floor(now / DAY) then redis.call('SET', day, addressed, 'EX', DAY_TTL) end
w.slot = current
if rolling == 1 then
  w.slot_used = slots[current % SLOTS + 1]
  slots[current % SLOTS + 1] = 0
  make_log(state, w, slots, recent)
else
  w.total = 0
end
local running, over = leases_at(state, now, lease_ms)
for _, lease in ipairs(over) do redis.call('HDEL', state, lease) end
w.live = #running
redis.call('HSET', state, 'windows', pack_windows(w))
keep(state, math.max(0, redis.call('PTTL', state) - DAY))
return 1
