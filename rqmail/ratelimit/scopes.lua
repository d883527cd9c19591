-- The words for a day that several mailboxes share; put after windows.lua where a script says `include`. A scope is kept as a
-- mailbox is; its calls of a minute are counted in the bucket alone, for nothing limits them.

-- What is kept of a scope, and whether that can be believed. Writes nothing.
local function read_scope(state, filled, now, lease)
  local name, kept = mailbox_of(state), redis.call('HMGET', state, 'windows', lease)
  local scope = { state = state, name = name, minute = minute_key(name, now), day = day_key(name, now) }
  local counters = redis.call('MGET', scope.minute, scope.day)
  scope.lease, scope.calls, scope.addressed = kept[2], counters[1], counters[2]
  scope.w = read_windows(kept[1])
  scope.found = condition(state, scope.w, filled, now, counters[1], counters[2])
  return scope
end

-- Make the best of what is kept; what is counted for this very reservation already is taken back first.
local function begin_scope(scope, filled, now, lease)
  local w = scope.w
  if scope.found == LOST and w.latest > now then scope.stepped_back_from = w.latest end
  carry_on(w, filled, scope.found)
  if scope.lease then
    give_back(scope.state, w, lease, scope.lease)
    redis.call('HSET', scope.state, 'windows', pack_windows(w))
    local counters = redis.call('MGET', scope.minute, scope.day)
    scope.calls, scope.addressed = counters[1], counters[2]
  end
  scope.calls, scope.addressed = counter(scope.minute, scope.calls), counter(scope.day, scope.addressed)
end

-- The moment at which so many more external recipients have room in a scope's day of `most`; nil when that is now.
local function scope_full_until(scope, now, external, most, rolling)
  local w, free_at = scope.w, nil
  scope.stamp = math.max(now, w.latest)
  if scope.addressed + external > most then free_at = (floor(now / DAY) + 1) * DAY end
  if rolling == 1 then
    scope.slots = pass_slots(scope.state, w, scope.stamp)
    if w.total + external > most then
      free_at = math.max(free_at or 0, day_frees(scope.state, w, scope.slots, most - external))
    end
  end
  return free_at
end

local function take_scope(scope, now, lease, external, rolling, lease_ms)
  local state, w, aged = scope.state, scope.w, scope.slots
  redis.call('SET', scope.minute, scope.calls + 1, 'EX', MINUTE_TTL)
  redis.call('SET', scope.day, scope.addressed + external, 'EX', DAY_TTL)
  if scope.stepped_back_from then drop_days_to_come(scope.name, scope.stepped_back_from, now) end
  if rolling == 1 then
    count_recipients(state, w, scope.slots, external)
  else
    aged = floor(now / SLOT) > w.slot
    if aged then w.slot = floor(now / SLOT) end
  end
  if aged then sweep(state, w, now, lease_ms) end
  w.latest, w.live = scope.stamp, w.live + 1
  redis.call('HSET', state, 'windows', pack_windows(w), lease,
    struct.pack(LEASE, now, scope.stamp, external, w.generation))
  if aged then keep(state, 0) end
end
