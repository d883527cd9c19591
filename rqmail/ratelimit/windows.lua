-- The words for what is counted and what is in flight; put after uploads.lua where a script says `include`.

-- Forget what the rolling windows counted, not what is in flight; leases of an older generation give them nothing back.
local function start_over(w, filled)
  w.filled, w.generation, w.latest, w.head, w.length, w.capacity, w.slot, w.slot_used, w.total =
    filled, w.generation + 1, 0, 0, 0, 0, 0, 0, 0
end

-- What is kept of a mailbox: WHOLE; DOUBTFUL when a history would know better (it comes from another run of the server, a
-- counter has vanished, the clock stepped back); LOST when it can not be continued either.
local WHOLE, DOUBTFUL, LOST = 0, 1, 2
local function condition(state, w, filled, now, calls, addressed)
  if w.filled < filled or w.latest > now + LONG_STEP_BACK then return LOST end
  if filled == ROLLING and w.slot > 0
    and redis.call('STRLEN', log_of(state)) ~= RING + (w.capacity + 1) * 8 then return LOST end
  if RUN ~= 0 and w.run ~= RUN or w.latest > now + MINUTE then return DOUBTFUL end
  if not calls and floor(w.latest / MINUTE) == floor(now / MINUTE) then return DOUBTFUL end
  if not addressed and floor(w.latest / DAY) == floor(now / DAY) then return DOUBTFUL end
  return WHOLE
end

-- Make the best of it: continue what can be continued under this run, forget the rest.
local function carry_on(w, filled, found)
  if found == LOST or w.filled ~= filled then start_over(w, filled) end
  if RUN ~= 0 then w.run = RUN end
end

-- Where the clock stepped back: drop the day counters of days that are yet to come.
local function drop_days_to_come(mailbox, latest, now)
  for day = floor(now / DAY) + 1, math.min(floor(latest / DAY), floor(now / DAY) + 8) do
    redis.call('DEL', day_key(mailbox, day * DAY))
  end
end

local function read_slots(state)
  local bytes = redis.call('GETRANGE', log_of(state), 0, RING - 1)
  local slots = {}
  for i = 1, SLOTS do slots[i] = #bytes >= i * 4 and struct.unpack('<I4', bytes, i * 4 - 3) or 0 end
  return slots
end

local function pack_slots(slots)
  local bytes = {}
  for i = 1, SLOTS do bytes[i] = struct.pack('<I4', slots[i]) end
  return table.concat(bytes)
end

-- Make the log, whole and with its time to live: these slots, and these calls in order of time.
local function make_log(state, w, slots, calls)
  w.capacity = math.max(FIRST_CAPACITY, 2 * #calls)
  w.head, w.length = #calls, #calls
  local bytes = {}
  for i, call in ipairs(calls) do bytes[i] = struct.pack('<d', call) end
  bytes[#bytes + 1] = string.rep('\0', (w.capacity + 1 - #calls) * 8)
  redis.call('SET', log_of(state), pack_slots(slots) .. table.concat(bytes), 'PX', STATE_TTL)
end

-- Let the day move on to the slot of this moment. Writes nothing; answers all slots when a border was passed, else nil.
local function pass_slots(state, w, at)
  local current = floor(at / SLOT)
  if current <= w.slot then return nil end
  local slots
  if current - w.slot >= SLOTS then
    slots, w.total = {}, 0
    for i = 1, SLOTS do slots[i] = 0 end
  else
    slots = read_slots(state)
    slots[w.slot % SLOTS + 1] = w.slot_used
    for slot = w.slot + 1, current do
      w.total = w.total - slots[slot % SLOTS + 1]
      slots[slot % SLOTS + 1] = 0
    end
  end
  w.slot, w.slot_used = current, 0
  return slots
end

-- Count recipients in the rolling day, whose slots have passed to the present one.
local function count_recipients(state, w, slots, recipients)
  if w.capacity == 0 then
    make_log(state, w, slots, {})
  elseif slots then
    redis.call('SETRANGE', log_of(state), 0, pack_slots(slots))
  end
  w.slot_used, w.total = w.slot_used + recipients, w.total + recipients
end

-- The earliest moment at which the rolling day holds at most `room` recipients of what it holds now.
local function day_frees(state, w, slots, room)
  slots = slots or read_slots(state)
  local held = w.total
  for slot = w.slot - SLOTS + 1, w.slot do
    held = held - (slot == w.slot and w.slot_used or slots[slot % SLOTS + 1])
    if held <= room then return (slot + SLOTS) * SLOT end
  end
  return (w.slot + SLOTS) * SLOT
end

-- The moment of the n-th newest call; 1 is the newest.
local function nth_call(state, w, n)
  local at = RING + ((w.head - n) % w.capacity) * 8
  return (struct.unpack('<d', redis.call('GETRANGE', log_of(state), at, at + 7)))
end

-- Split what is in flight at this moment into the ends of running leases, sorted, and the names of those that are over.
-- One granted in a time to come is over: the clock stepped back, and nobody knows for how long it runs. With `grace_ms` those
-- count as running that have been over for no longer.
local function leases_at(state, now, lease_ms, grace_ms)
  local fields, ends, over, _ = redis.call('HGETALL', state), {}, {}, nil
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 6) == 'lease:' then
      local began, more = struct.unpack('<d', fields[i + 1]), 0
      if #fields[i + 1] == EXTENDED_BYTES then _, _, _, _, began, more = struct.unpack(EXTENDED, fields[i + 1]) end
      local stop = began + more + lease_ms
      if stop + (grace_ms or 0) > now and began <= now + MINUTE then
        ends[#ends + 1] = stop
      else
        over[#over + 1] = fields[i]
      end
    end
  end
  table.sort(ends)
  return ends, over
end

-- Let every lease stay in flight with nothing to give back: the counters it was counted in have begun anew.
local function disown_leases(state)
  local fields = redis.call('HGETALL', state)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 6) == 'lease:' then
      local granted, kept = struct.unpack('<d', fields[i + 1]), ''
      if #fields[i + 1] == EXTENDED_BYTES then kept = string.sub(fields[i + 1], -16) end
      redis.call('HSET', state, fields[i], struct.pack(LEASE, granted, 0, 0, 0) .. kept)
    end
  end
end

-- Put a call at the end of the ring, which is emptied when all of it is over a minute old and grows when it would drop a
-- call that is not.
local function write_call(state, w, stamp)
  local log = log_of(state)
  if stamp - w.latest >= MINUTE then
    w.head, w.length = 0, 0
  elseif w.length == w.capacity and nth_call(state, w, w.length) + MINUTE > stamp then
    local ring, at = redis.call('GETRANGE', log, RING, RING + w.capacity * 8 - 1), w.head * 8
    redis.call('SETRANGE', log, RING, string.sub(ring, at + 1) .. string.sub(ring, 1, at) ..
      string.rep('\0', (w.capacity + 1) * 8))
    w.head, w.capacity = w.length, w.capacity * 2
  end
  redis.call('SETRANGE', log, RING + w.head * 8, struct.pack('<d', stamp))
  w.head = (w.head + 1) % w.capacity
  if w.length < w.capacity then w.length = w.length + 1 end
end

-- Of more leases than a mailbox can have in flight, drop those over for so long that nobody will come to release them.
local function sweep(state, w, now, lease_ms)
  if w.live <= FEW_LEASES then return end
  local _, over = leases_at(state, now, lease_ms, LATE_RELEASE)
  for _, lease in ipairs(over) do redis.call('HDEL', state, lease) end
  w.live = w.live - #over
end

-- Take the call of that moment out of the ring; the newer ones close up. Calls of one moment are as good as each other.
local function forget_call(state, w, stamp)
  if stamp <= w.latest - MINUTE then return end
  local newer = {}
  for n = 1, w.length do
    local call = nth_call(state, w, n)
    if call < stamp then return end
    if call == stamp then
      for i = 1, #newer do
        redis.call('SETRANGE', log_of(state), RING + ((w.head - i - 1) % w.capacity) * 8, struct.pack('<d', newer[i]))
      end
      w.head, w.length = (w.head - 1) % w.capacity, w.length - 1
      return
    end
    newer[n] = call
  end
end

local function take_back(key, amount)
  local held = tonumber(redis.call('GET', key) or 0) or 0
  if held > 0 then redis.call('DECRBY', key, math.min(held, amount)) end
end

-- End a lease and give back just what it took, to the buckets and windows it took it from. The header is the caller's to
-- write. No counter goes below zero, and an expired one stays expired.
local function give_back(state, w, lease, packed)
  local granted, stamp, recipients, generation = struct.unpack(LEASE, packed)
  local mailbox, log = mailbox_of(state), log_of(state)
  w.live = w.live - 1
  redis.call('HDEL', state, lease)
  forget_upload(state, lease)
  if generation == 0 then return end
  take_back(minute_key(mailbox, granted), 1)
  take_back(day_key(mailbox, granted), recipients)
  if generation ~= w.generation or w.filled ~= ROLLING
    or redis.call('STRLEN', log) ~= RING + (w.capacity + 1) * 8 then return end

  local slot, freed = floor(stamp / SLOT), 0
  if slot == w.slot then
    freed = math.min(recipients, w.slot_used)
    w.slot_used = w.slot_used - freed
  elseif slot > w.slot - SLOTS then
    local at = (slot % SLOTS) * 4
    local held = struct.unpack('<I4', redis.call('GETRANGE', log, at, at + 3))
    freed = math.min(recipients, held)
    redis.call('SETRANGE', log, at, struct.pack('<I4', held - freed))
  end
  w.total = w.total - freed
  forget_call(state, w, stamp)
end
