-- What the verbs share: it stands before each of them. A fanout is one hash, and nothing else is kept of it:
--
--   total, pending, failed      counts; pending may fall below zero
--   tolerate                    how many items may fail; absent for any number
--   opened_us, sealed_us, completed_us, failed_us, active_us      when; absent as long as it has not happened
--   ttl_ms                      how long it is kept after the last call that changed something
--   told_to                     the seal that was told of the end
--   labels                      what it was opened with, as JSON; absent for none
--
-- KEYS[1] names the fanout, ARGV[1] is the time of the call; empty for the server's clock. Every verb answers nil for
-- a fanout that is not there.
-- Times are kept as they came: Lua writes a number with 14 digits, and a time has 16.

local key, now = KEYS[1], ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] .. string.format('%06d', time[2])
end
local known = redis.call('EXISTS', key) == 1

local function get(field)
  return redis.call('HGET', key, field)
end

-- Note the activity, and keep the fanout for another ttl. A clock that lags behind another's changes no time.
local function touch()
  if tonumber(get('active_us')) < tonumber(now) then
    redis.call('HSET', key, 'active_us', now)
  end
  redis.call('PEXPIRE', key, get('ttl_ms'))
end

-- The end that is due: 'failed', 'complete' or none.
local function due()
  local tolerate = get('tolerate')
  if tolerate and tonumber(get('failed')) > tonumber(tolerate) then
    return 'failed'
  end
  return get('sealed_us') and tonumber(get('pending')) <= 0 and 'complete'
end

-- End the fanout if that is due. Says how it ended to the one call that ends it, and false, which arrives as nil,
-- to all others; a call that has a name is told again when it is repeated.
local function finish(call)
  local ended = get('completed_us') and 'complete' or get('failed_us') and 'failed'
  if ended then
    return call ~= nil and get('told_to') == call and ended
  end
  ended = due()
  if ended then
    redis.call('HSET', key, ended == 'failed' and 'failed_us' or 'completed_us', now)
    if call then
      redis.call('HSET', key, 'told_to', call)
    end
  end
  return ended
end
