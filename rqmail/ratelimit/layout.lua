-- What is kept of one mailbox; put in front of every script of this folder.
--
-- mail:rate:min:<mailboxKey>:<minuteBucket>   string  sendMail calls in that minute, 120 s
-- mail:rate:day:<mailboxKey>:<dayBucket>      string  recipients in that UTC day, 26 h
-- mail:rate:state:<mailboxKey>                hash, 26 h or as long as a pause lasts
--     windows       the header of the rolling windows, packed as HEADER
--     pause         until when, since when, how many in a row, why; packed as PAUSE
--     lease:<id>    one reservation in flight, packed as LEASE; as REFILLED when the history told of it, as EXTENDED once its
--                   lease was extended
--     uploads       what was uploaded lately, UPLOAD after UPLOAD
-- mail:rate:log:<mailboxKey>                  string of bytes, 26 h
--     SLOTS x 4 bytes      recipients per slot of ten minutes, slot n at n % SLOTS (the current one counts in the header)
--     capacity x 8 bytes   the moments of the last calls, a ring in order of time
--     8 bytes              never used: they are at their place only when the log is whole
--
-- A scope, whose day several mailboxes share, is kept as a mailbox is; its name (entra/<tenant>) is no address.
--
-- The state key is KEYS[1]; the other names follow from it. Moments are milliseconds since 1970, with a fraction.
-- RUN, put in front of this, is a number for the run of the server that the script was registered with (0 when the server
-- does not tell). The header repeats it, so data that the server read from elsewhere (a snapshot, another server) shows.
-- A decision costs the same however much was sent: the day keeps a running total, the minute looks at one ring entry.

local MINUTE, DAY, SLOT, SLOTS = 60000, 86400000, 600000, 145
local RING = SLOTS * 4
local MINUTE_TTL, DAY_TTL, STATE_TTL = 120, 93600, 93600000
local LIMITS = '<ddddBB' -- calls a minute, recipients a day, in flight, lease, rolling?, may an unknown mailbox start empty?
local HEADER = '<BI4dI4I4I4I4ddI4d' -- the fields of read_windows, in that order
local HEADER_BYTES, FORMER_HEADER_BYTES = 57, 49 -- the shorter one tells nothing of its run: it counts as none
local PAUSE = '<dddBc0'
local LEASE = '<dddI4' -- granted, stamp, recipients, generation (0: nothing to give back)
local REFILLED, REFILLED_BYTES = '<dddI4B', 29 -- the same and a 1
local EXTENDED, EXTENDED_BYTES = '<dddI4dd', 44 -- the same, when it was extended, and by how many ms beyond a lease
local UPLOAD_WINDOW = 300000
local UPLOAD = '<ddI4c0' -- from when on its window runs, bytes, reservation; while in flight that is the end of its lease
local FIXED, ROLLING = 1, 2 -- what the windows were filled for; 0 is never
local FIRST_CAPACITY = 32 -- a new ring has room for so many calls; it grows when a minute holds more
local LONG_STEP_BACK = 3 * 3600000 -- without a history, windows stay valid when the clock steps back by less
local FEW_LEASES, LATE_RELEASE = 32, 3600000
local floor = math.floor
