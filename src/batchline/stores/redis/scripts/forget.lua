-- forget(now): the fanout is not there any more. Answers 1, or 0 if it was not there before.

return redis.call('DEL', key)
