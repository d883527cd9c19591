-- What many mailboxes have used and have left, as the checks see it. Writes nothing.
--
-- KEYS     the mailboxes' state keys   ARGV[1]  the moment in ms, or '' for the server's own time
-- ARGV[2], ARGV[3], ...  the limits of each mailbox, packed as LIMITS
--
-- Returns one text per mailbox: 'unknown <moment>' when nothing is known of it and it may not start empty, 'error <text>' when
-- its keys hold something else than ours, else
-- 'ok <moment> <bucket calls> <rolling calls> <bucket recipients> <rolling recipients> <in flight> <in flight allowed>
-- <when one recipient could pass> <paused until, or 0> <why paused>'; the rolling numbers are 0 with fixed windows.

-- include words.lua

local now = moment(ARGV[1])

local function calls_within_a_minute(state, w, stamp)
  local from, to = 0, w.length -- the newest `from` are within, what is older than the newest `to` is not
  if stamp - w.latest >= MINUTE then return 0 end
  while from < to do
    local middle = math.ceil((from + to) / 2)
    local call = nth_call(state, w, middle)
    if call and call + MINUTE > stamp then from = middle else to = middle - 1 end
  end
  return from
end

local function usage(state, limits)
  local per_minute, per_day, in_flight, lease_ms, rolling, may_start = struct.unpack(LIMITS, limits)
  local mailbox, filled = mailbox_of(state), rolling == 1 and ROLLING or FIXED
  local kept = redis.call('HMGET', state, 'windows', 'pause')
  local w = read_windows(kept[1])
  if w.filled < filled and may_start == 0 then return string.format('unknown %.3f', now) end
  if w.filled ~= filled then start_over(w, filled) end

  local minute, day = minute_key(mailbox, now), day_key(mailbox, now)
  local counters = redis.call('MGET', minute, day)
  local calls, addressed = counter(minute, counters[1]), counter(day, counters[2])
  local stamp = math.max(now, w.latest)
  local free_at, recent = now, 0
  if calls >= per_minute then free_at = (floor(now / MINUTE) + 1) * MINUTE end
  if addressed >= per_day then free_at = (floor(now / DAY) + 1) * DAY end
  if rolling == 1 then
    local slots = pass_slots(state, w, stamp)
    recent = calls_within_a_minute(state, w, stamp)
    if recent >= per_minute then free_at = math.max(free_at, nth_call(state, w, per_minute) + MINUTE) end
    if w.total >= per_day then free_at = math.max(free_at, day_frees(state, w, slots, per_day - 1)) end
  end

  local paused_until, why = 0, ''
  if kept[2] then
    local ends, _, _, text = struct.unpack(PAUSE, kept[2])
    if ends > now then paused_until, why, free_at = ends, text, math.max(free_at, ends) end
    in_flight = 1
  end
  local live = w.live > 0 and #leases_at(state, now, lease_ms) or 0
  return string.format('ok %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %s', floor(now), calls, recent, addressed, w.total,
    live, in_flight, free_at > now and math.ceil(free_at) or floor(now), math.ceil(paused_until), why)
end

local answers = {}
for i, state in ipairs(KEYS) do
  local read, answer = pcall(usage, state, ARGV[i + 1])
  answers[i] = read and answer or 'error ' .. tostring(type(answer) == 'table' and answer.err or answer)
end
return answers
