-- What many mailboxes have used and have left, as the checks see it. Writes nothing.
--
-- KEYS     the mailboxes' state keys   ARGV[1]  the moment in ms, or '' for the server's own time
-- ARGV[2], ARGV[3], ...  the limits of each mailbox, packed as LIMITS
--
-- Returns one text per mailbox: 'unknown <moment>' when nothing that can be
-- believed is known of it and it may not start empty, 'error <text>' when
-- its keys hold something else than ours, else
-- 'ok <moment> <bucket calls> <rolling calls> <bucket recipients> <rolling recipients> <in flight> <in flight allowed>
-- <when one recipient could pass> <the reason that ends then, or -> <bytes uploaded> <when some of them count no more, or 0>
-- <paused until, or 0> <why paused>'; the rolling numbers are 0 with fixed windows.

-- include words.lua
-- include uploads.lua
-- include windows.lua

local now = moment(ARGV[1])

local function calls_within_a_minute(state, w, stamp)
  local from, to = 0, w.length -- the newest `from` are within, what is older than the newest `to` is not
  if stamp - w.latest >= MINUTE then return 0 end
  while from < to do
    local middle = math.ceil((from + to) / 2)
    if nth_call(state, w, middle) + MINUTE > stamp then from = middle else to = middle - 1 end
  end
  return from
end

local function usage(state, limits)
  local per_minute, per_day, in_flight, lease_ms, rolling, may_start = struct.unpack(LIMITS, limits)
  local mailbox, filled = mailbox_of(state), rolling == 1 and ROLLING or FIXED
  local kept = redis.call('HMGET', state, 'windows', 'pause', 'uploads')
  local w = read_windows(kept[1])
  local minute, day = minute_key(mailbox, now), day_key(mailbox, now)
  local counters = redis.call('MGET', minute, day)
  local found = condition(state, w, filled, now, counters[1], counters[2])
  if found ~= WHOLE and may_start == 0 then return string.format('unknown %.3f', now) end
  carry_on(w, filled, found)

  local calls, addressed = counter(minute, counters[1]), counter(day, counters[2])
  local stamp = math.max(now, w.latest)
  local free_at, reason, recent = now, '-', 0
  local function wait(because, at)
    if at > free_at then reason, free_at = because, at end
  end

  local paused_until, why = pause_at(kept[2], now)
  wait('paused', paused_until)
  if kept[2] then in_flight = 1 end
  if calls >= per_minute then wait('minute', (floor(now / MINUTE) + 1) * MINUTE) end
  local slots
  if rolling == 1 then
    slots = pass_slots(state, w, stamp)
    recent = calls_within_a_minute(state, w, stamp)
    if recent >= per_minute then wait('minute', nth_call(state, w, per_minute) + MINUTE) end
  end
  if addressed >= per_day then wait('day', (floor(now / DAY) + 1) * DAY) end
  if rolling == 1 and w.total >= per_day then wait('day', day_frees(state, w, slots, per_day - 1)) end
  local live = w.live > 0 and #leases_at(state, now, lease_ms) or 0
  local uploads = read_uploads(kept[3], now)
  local uploaded, frees = volume(uploads, 0), 0
  if uploads[1] then frees = uploads[1][1] + UPLOAD_WINDOW end
  return string.format('ok %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %s %.0f %.0f %.0f %s', floor(now), calls, recent, addressed, w.total,
    live, in_flight, free_at > now and math.ceil(free_at) or floor(now), reason, uploaded, math.ceil(frees),
    math.ceil(paused_until), why)
end

local answers = {}
for i, state in ipairs(KEYS) do
  local read, answer = pcall(usage, state, ARGV[i + 1])
  answers[i] = read and answer or 'error ' .. tostring(type(answer) == 'table' and answer.err or answer)
end
return answers
