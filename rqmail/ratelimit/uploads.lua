-- The words for the volume of uploads; put after words.lua where a script says `include`.

-- What was uploaded and counts still, as {from when on its window runs, bytes, reservation}; all of it with no moment.
local function read_uploads(packed, now)
  local found, at = {}, 1
  while packed and at <= #packed do
    local from, bytes, reservation
    from, bytes, reservation, at = struct.unpack(UPLOAD, packed, at)
    if not now or (from + UPLOAD_WINDOW > now and from <= now + LONG_STEP_BACK) then
      found[#found + 1] = { from, bytes, reservation }
    end
  end
  return found
end

local function write_uploads(state, uploads)
  if #uploads == 0 then return redis.call('HDEL', state, 'uploads') end
  local packed = {}
  for i, upload in ipairs(uploads) do packed[i] = struct.pack(UPLOAD, upload[1], upload[2], #upload[3], upload[3]) end
  redis.call('HSET', state, 'uploads', table.concat(packed))
end

-- How many bytes count, and the earliest moment at which at most `room` of them do.
local function volume(uploads, room)
  local held, frees = 0, 0
  table.sort(uploads, function(one, other) return one[1] < other[1] end)
  for _, upload in ipairs(uploads) do held = held + upload[2] end
  local left = held
  for _, upload in ipairs(uploads) do
    if left <= room then break end
    left, frees = left - upload[2], upload[1] + UPLOAD_WINDOW
  end
  return held, frees
end

-- Let the window of what a reservation uploads run from that moment on.
local function date_upload(state, packed, lease, from, now)
  local uploads = read_uploads(packed, now)
  for _, upload in ipairs(uploads) do
    if 'lease:' .. upload[3] == lease then upload[1] = from end
  end
  write_uploads(state, uploads)
end

-- Take out what a reservation uploads: it was certainly not sent.
local function forget_upload(state, lease)
  local packed, kept = redis.call('HGET', state, 'uploads'), {}
  if not packed then return end
  for _, upload in ipairs(read_uploads(packed)) do
    if 'lease:' .. upload[3] ~= lease then kept[#kept + 1] = upload end
  end
  write_uploads(state, kept)
end
