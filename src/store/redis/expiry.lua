  -- Kept a sixty-fourth and a second longer than it matters, so that not every charge moves the expiry.
  if over > kept_until or mends or moves then
    local longer = 0
    if over > now then longer = (over - now) / 64 + 1000000 end
    moves, kept_until = true, math.ceil(over + longer)
  end
