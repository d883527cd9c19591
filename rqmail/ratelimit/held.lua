-- What still counts of many mailboxes, by the moment it was counted at. Writes nothing.
--
-- KEYS     the mailboxes' state keys   ARGV[1]  the moment in ms, or '' for the server's own time
-- ARGV[2], ARGV[3], ...  the limits of each mailbox, packed as LIMITS
--
-- Returns one text per mailbox: '<moment of calls>=<calls> ...|<moment of recipients>=<recipients> ...|<moment>=<bytes uploaded>
-- ...', in order of time; the window of an upload in flight begins in a time to come. With
-- rolling windows the calls are those of the last minute and the recipients are summed per slot, told at its begin; with
-- fixed windows both are told at this moment, as they lie in its minute and its day.

-- include words.lua
-- include uploads.lua
-- include windows.lua

local now = moment(ARGV[1])

local function told(parts, at, counted)
  if counted > 0 then parts[#parts + 1] = string.format('%.0f=%.0f', math.ceil(at), counted) end
end

local function held(state, limits)
  local _, _, _, _, rolling = struct.unpack(LIMITS, limits)
  local mailbox, calls, recipients, uploaded = mailbox_of(state), {}, {}, {}
  local counters = redis.call('MGET', minute_key(mailbox, now), day_key(mailbox, now))
  if rolling == 0 then
    told(calls, now, counter(nil, counters[1] or '0'))
    told(recipients, now, counter(nil, counters[2] or '0'))
  else
    local w = read_windows(redis.call('HGET', state, 'windows'))
    carry_on(w, ROLLING, condition(state, w, ROLLING, now, counters[1], counters[2]))
    local slots = pass_slots(state, w, math.max(now, w.latest)) or read_slots(state)
    for n = w.length, 1, -1 do
      local call = nth_call(state, w, n)
      if call + MINUTE > now then told(calls, call, 1) end
    end
    for slot = w.slot - SLOTS + 1, w.slot do
      told(recipients, slot * SLOT, slot == w.slot and w.slot_used or slots[slot % SLOTS + 1])
    end
  end
  local uploads = read_uploads(redis.call('HGET', state, 'uploads'), now)
  table.sort(uploads, function(one, other) return one[1] < other[1] end)
  for _, upload in ipairs(uploads) do told(uploaded, upload[1], upload[2]) end
  return table.concat(calls, ' ') .. '|' .. table.concat(recipients, ' ') .. '|' .. table.concat(uploaded, ' ')
end

local answers = {}
for i, state in ipairs(KEYS) do answers[i] = held(state, ARGV[i + 1]) end
return answers
