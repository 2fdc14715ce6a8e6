-- status(now): all that is kept of the fanout. Changes nothing, and keeps nothing alive: looking is no activity.

if not known then
  return false
end
return redis.call('HGETALL', key)
