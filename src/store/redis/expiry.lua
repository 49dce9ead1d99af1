  -- Kept a sixty-fourth and 16 ms longer than it matters, so that not every charge moves the expiry.
  if over > kept_until or mends or moves then
    moves, kept_until = true, over
    if over > now then kept_until = math.ceil(over + (over - now) / 64) + 16000 end
  end
