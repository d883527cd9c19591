-- Take one call and N recipients from a mailbox's budgets, all or nothing.
--
-- KEYS[1]  the mailbox's state key   KEYS[2], ...  the state keys of the scopes whose day it takes external recipients from
-- ARGV[1]  the limits, packed as LIMITS   ARGV[2]  lease:<reservation id>   ARGV[3]  recipients
-- ARGV[4]  the moment in ms; the server's own time when left out or ''
-- ARGV[5]  only for a mail that uploads: the bytes, and how many the window takes, packed as two doubles; else left out or ''
-- ARGV[6]  only with scopes: the external recipients, and how many the day of each scope takes, packed as doubles
--
-- Returns the moment of the grant (an integer, ms) when taken, or when this id holds its place already;
-- 'unknown <moment> <1 or 0 for each key>' when nothing that can be believed is known of those with 1 and they may not start
-- empty;
-- '<reason> <ms until this very request could pass> <why paused>' when denied, with the reason that ends last; that of the
-- first scope is scope1.
-- Only a grant writes anything; but what a refill counted for this very id is taken back first.

local per_minute, per_day, in_flight, lease_ms, rolling, may_start = struct.unpack(LIMITS, ARGV[1])
local state, lease, recipients, now = KEYS[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + time[2] / 1000
end
local filled = rolling == 1 and ROLLING or FIXED
local mailbox, bucket = string.sub(state, 17), floor(now / MINUTE)
local minute = 'mail:rate:min:' .. mailbox .. ':' .. bucket
local day = 'mail:rate:day:' .. mailbox .. ':' .. floor(now / DAY)

local kept = redis.call('HMGET', state, 'windows', 'pause', lease)
if kept[3] and #kept[3] ~= REFILLED_BYTES then return (struct.unpack('<d', kept[3])) end
local counters = redis.call('MGET', minute, day)

-- The common case in few steps: granted in the same minute as the one before, so that no slot, ring or key is new.
if kept[1] and not kept[2] and not kept[3] and #kept[1] == HEADER_BYTES and not ARGV[5] then
  local kind, generation, latest, head, length, capacity, slot, slot_used, total, live, run = struct.unpack(HEADER, kept[1])
  local calls, addressed = tonumber(counters[1]), tonumber(counters[2])
  if kind == filled and run == RUN and latest <= now and floor(latest / MINUTE) == bucket and live < in_flight
    and calls and calls < per_minute and addressed and addressed + recipients <= per_day then
    local free = rolling == 0
    if not free and total + recipients <= per_day and (length < capacity or length >= per_minute) then
      local log = 'mail:rate:log:' .. mailbox
      free = length < per_minute
      if not free then
        local at = RING + (head - per_minute) % capacity * 8
        local nth = redis.call('GETRANGE', log, at, at + 7)
        free = #nth == 8 and struct.unpack('<d', nth) + MINUTE <= now
      end
      if free then
        if redis.call('SETRANGE', log, RING + head * 8, struct.pack('<d', now)) == RING + capacity * 8 + 8 then
          head, slot_used, total = (head + 1) % capacity, slot_used + recipients, total + recipients
          if length < capacity then length = length + 1 end
        else -- the log had vanished, and what was written is no log
          redis.call('DEL', log)
          free = false
        end
      end
    end
    if free then
      redis.call('INCR', minute)
      redis.call('INCRBY', day, recipients)
      redis.call('HSET', state, 'windows',
        struct.pack(HEADER, kind, generation, now, head, length, capacity, slot, slot_used, total, live + 1, run),
        lease, struct.pack(LEASE, now, now, recipients, generation))
      return now
    end
  end
end

-- include words.lua
-- include uploads.lua
-- include windows.lua
-- include scopes.lua

local w = read_windows(kept[1])
local found = condition(state, w, filled, now, counters[1], counters[2])
local scopes, unknown = {}, found == WHOLE and '0' or '1'
for i = 2, #KEYS do
  local scope = read_scope(KEYS[i], filled, now, lease)
  scopes[i - 1], unknown = scope, unknown .. (scope.found == WHOLE and '0' or '1')
end
if may_start == 0 and string.find(unknown, '1') then return string.format('unknown %.3f %s', now, unknown) end
local stepped_back_from = found == LOST and w.latest > now and w.latest
carry_on(w, filled, found)
if kept[3] then -- a refill took it for running, and it only asks now
  give_back(state, w, lease, kept[3])
  redis.call('HSET', state, 'windows', pack_windows(w))
  counters = redis.call('MGET', minute, day)
end
for _, scope in ipairs(scopes) do begin_scope(scope, filled, now, lease) end

local reason, free_at = nil, now
local function deny(because, at)
  if not reason or at > free_at then reason, free_at = because, at end
end

local paused_until, why = pause_at(kept[2], now)
if paused_until > 0 then deny('paused', paused_until) end
if kept[2] then in_flight = 1 end -- one request at a time after a pause, until one has succeeded

local over
if w.live >= in_flight then
  local ends
  ends, over = leases_at(state, now, lease_ms)
  if #ends >= in_flight then deny('in_flight', ends[#ends - in_flight + 1]) end
end

local calls, addressed = counter(minute, counters[1]), counter(day, counters[2])
local stamp = now > w.latest and now or w.latest -- a clock that steps back must not disorder the ring
local slots

if calls + 1 > per_minute then deny('minute', (floor(now / MINUTE) + 1) * MINUTE) end
if rolling == 1 then
  slots = pass_slots(state, w, stamp)
  if w.length >= per_minute and stamp - w.latest < MINUTE then
    local nth = nth_call(state, w, per_minute)
    if nth + MINUTE > stamp then deny('minute', nth + MINUTE) end
  end
end
if addressed + recipients > per_day then deny('day', (floor(now / DAY) + 1) * DAY) end
if rolling == 1 and w.total + recipients > per_day then
  deny('day', day_frees(state, w, slots, per_day - recipients))
end

local uploads, bytes
if ARGV[5] and ARGV[5] ~= '' then
  local most, held, frees
  bytes, most = struct.unpack('<dd', ARGV[5])
  if bytes > most then bytes = most end -- what is larger than the window takes all of it
  uploads = read_uploads(redis.call('HGET', state, 'uploads'), now)
  held, frees = volume(uploads, most - bytes)
  if held + bytes > most then deny('upload', frees) end
end

local external
for i, scope in ipairs(scopes) do
  external = struct.unpack('<d', ARGV[6])
  local full_until = scope_full_until(scope, now, external, struct.unpack('<d', ARGV[6], i * 8 + 1), rolling)
  if full_until then deny('scope' .. i, full_until) end
end

if reason then return string.format('%s %.0f %s', reason, math.ceil(free_at - now), why) end

redis.call('SET', minute, calls + 1, 'EX', MINUTE_TTL)
redis.call('SET', day, addressed + recipients, 'EX', DAY_TTL)
if over then
  if #over > 0 then redis.call('HDEL', state, unpack(over)) end
  w.live = w.live - #over
end
local aged
if stepped_back_from then drop_days_to_come(mailbox, stepped_back_from, now) end
if rolling == 1 then
  count_recipients(state, w, slots, recipients)
  write_call(state, w, stamp)
  aged = slots
else
  aged = floor(now / SLOT) > w.slot
  if aged then w.slot = floor(now / SLOT) end
end
if aged then sweep(state, w, now, lease_ms) end
w.latest, w.live = stamp, w.live + 1
redis.call('HSET', state, 'windows', pack_windows(w), lease, struct.pack(LEASE, now, stamp, recipients, w.generation))
if uploads then
  uploads[#uploads + 1] = { now + lease_ms, bytes, string.sub(lease, 7) }
  write_uploads(state, uploads)
end
if aged then keep(state, paused_until - now) end
for _, scope in ipairs(scopes) do take_scope(scope, now, lease, external, rolling, lease_ms) end
return now
