  -- At most a sixty-fourth later than the state matters, so that not every charge moves the expiry.
  local needed_until = math.ceil(over / 1000)
  local latest = needed_until
  if over > now then latest = math.floor(needed_until + (over - now) / 64000) end
  local moves = not state or at == '' or kept_until < needed_until or kept_until > latest
  if moves then kept_until = latest end
