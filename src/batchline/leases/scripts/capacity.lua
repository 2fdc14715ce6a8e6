-- What the verbs share: it stands before each of them. A resource is three keys of one slot of a cluster:
--
--   KEYS[1]   its size, a text
--   KEYS[2]   a hash of its partitions: by number, until when and by whom it is held, as '1700000000000000 instance';
--             without an instance nobody holds it: one that was given back, or that nobody may have yet
--   KEYS[3]   a hash of what instances said: by instance, when, how many they want, and which they hold, with spaces
--
-- The clock is the server's, in microseconds: a number in Lua has 53 bits, and that takes 51.

local size_key, partitions_key, askings_key = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- A number as it is kept: Lua itself would write it with 14 digits.
local function written(number)
  return string.format('%.0f', number)
end

-- Until when a partition is held, and by whom; nothing for one that is not there.
local function read(kept)
  if not kept then
    return nil, nil
  end
  local until_us, holder = string.match(kept, '^(%d+) (.*)$')
  return tonumber(until_us), holder
end

-- The partitions that the arguments name from one on, with what is kept of each.
local function asked(first)
  local numbers = {}
  for place = first, #ARGV do
    numbers[#numbers + 1] = ARGV[place]
  end
  return numbers, redis.call('HMGET', partitions_key, unpack(numbers))
end

local function lease(number, instance, lease_ms)
  local until_us = now_us + tonumber(lease_ms) * 1000
  redis.call('HSET', partitions_key, number, written(until_us) .. ' ' .. instance)
end
