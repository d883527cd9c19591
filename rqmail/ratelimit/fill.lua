-- Count what was sent before, for a mailbox of which nothing is known; of two at once only the first counts.
--
-- KEYS[1]  the mailbox's state key   ARGV[1]  the limits, packed as LIMITS   ARGV[2]  the moment in ms
-- ARGV[3], ARGV[4], ...  moment in ms and recipients of what was sent, in order of time; calls older than two minutes may
--                        be summed at the start of their slot
--
-- Returns 1 when filled, 0 when the mailbox was known.

-- include words.lua

local per_minute, per_day, in_flight, lease_ms, rolling = struct.unpack(LIMITS, ARGV[1])
local state, now = KEYS[1], tonumber(ARGV[2])
local mailbox, filled = mailbox_of(state), rolling == 1 and ROLLING or FIXED
local w = read_windows(redis.call('HGET', state, 'windows'))
if w.filled >= filled and (rolling == 0 or w.length == 0 or redis.call('EXISTS', log_of(state)) == 1) then return 0 end
start_over(w, filled)

local slots, calls, addressed = {}, 0, 0
local current = floor(now / SLOT)
for i = 1, SLOTS do slots[i] = 0 end
for i = 3, #ARGV, 2 do
  local at, recipients = math.min(tonumber(ARGV[i]), now), tonumber(ARGV[i + 1])
  local slot = floor(at / SLOT)
  if floor(at / MINUTE) == floor(now / MINUTE) then calls = calls + 1 end
  if floor(at / DAY) == floor(now / DAY) then addressed = addressed + recipients end
  if rolling == 1 and slot > current - SLOTS then
    slots[slot % SLOTS + 1] = slots[slot % SLOTS + 1] + recipients
    w.total = w.total + recipients
    if at > now - MINUTE then
      write_call(state, w, per_minute, at)
      w.latest = at
    end
  end
end

local minute, day = minute_key(mailbox, now), day_key(mailbox, now)
calls, addressed = math.max(calls, counter(minute)), math.max(addressed, counter(day))
if calls > 0 then redis.call('SET', minute, calls, 'EX', MINUTE_TTL) end
if addressed > 0 then redis.call('SET', day, addressed, 'EX', DAY_TTL) end
w.slot = current
if rolling == 1 then
  w.slot_used = slots[current % SLOTS + 1]
  slots[current % SLOTS + 1] = 0
  write_slots(state, slots)
end
redis.call('HSET', state, 'windows', pack_windows(w))
keep(state, 0)
return 1
