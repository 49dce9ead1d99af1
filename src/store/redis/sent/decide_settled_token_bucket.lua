-- Decides about a cost: holds or charges it if all limits have room for it.
--
-- m1       a limit; state layout: `debt-held`
-- KEYS[1]  the state of m1
-- ARGV[1]  doubles: cost, m1_capacity_parts, m1_parts_per_unit, m1_parts_per_tick, m1_tick_micros,
--            m1_own_id, m1_held_at_most, m1_generation_time, m1_matters_for
-- Reply    charged: a byte 1, then doubles: now, m1_debt_now, m1_tick_now, m1_generation_start
--          not charged: a byte 0, then doubles: now, 1 if m1 admits, m1_debt_now, m1_tick_now,
--            m1_generation_start
-- Writes   KEYS[1], if it charges or repairs the state: a byte 1, then doubles: now, m1_debt,
--            m1_debt_tick, m1_earlier_start, m1_earlier_end, m1_earlier_held, m1_later_start,
--            m1_later_end, m1_later_held, key_expires_at, m1_id;
--          then m1_tail;
--          expires at key_expires_at
-- Error    UNREADABLE, if a key has a value that no script wrote

local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local ended
local m1_tail, m1_tail_at, m1_tail_end, m1_rewritten, m1_tick_now, m1_plans, m1_debt_now,
  m1_debt_after, m1_fits, m1_expires_at, m1_admitted_tick, m1_admitted_debt, m1_hold_at,
  m1_generation_start, m1_capacity
local cost, m1_capacity_parts, m1_parts_per_unit, m1_parts_per_tick, m1_tick_micros, m1_own_id,
  m1_held_at_most, m1_generation_time, m1_matters_for = struct.unpack('<ddddddddd', numbers)

-- The time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The state: all zeros if there is none.
local state = call('GET', key)
m1_tail_at, m1_tail_end = 90, 121
if state and #state ~= 121 then
  if #state < 89 then return redis.error_reply('UNREADABLE state') end
  local tail_end = 89
  m1_tail_at = tail_end + 1
  tail_end = tail_end + (struct.unpack('<d', state, 82) == 0 and 144 or 32)
  m1_tail_end = tail_end
  if #state ~= tail_end then return redis.error_reply('UNREADABLE state') end
end
local m1_debt, m1_debt_tick, m1_earlier_start, m1_earlier_end, m1_earlier_held, m1_later_start,
  m1_later_end, m1_later_held, key_expires_at, m1_id
  = struct.unpack('<dddddddddd', state or string.rep('\0', 89), 10)
if not (m1_debt >= 0 and m1_debt_tick >= 0 and m1_earlier_start >= 0 and m1_earlier_end >= 0 and
  m1_earlier_held >= 0 and m1_later_start >= 0 and m1_later_end >= 0 and m1_later_held >= 0 and
  key_expires_at >= 0
  and m1_debt + m1_debt_tick + m1_earlier_start + m1_earlier_end + m1_earlier_held +
  m1_later_start + m1_later_end + m1_later_held + key_expires_at < 2 ^ 58
  and m1_debt % 1 + m1_debt_tick % 1 + m1_earlier_start % 1 + m1_earlier_end % 1 +
  m1_earlier_held % 1 + m1_later_start % 1 + m1_later_end % 1 + m1_later_held % 1 +
  key_expires_at % 1 == 0) then
  return redis.error_reply('UNREADABLE state')
end

-- m1: has the cost room?
if m1_later_start > now + m1_generation_time then
  -- The clock has stepped back: generations begin now, and no receipt names them any more.
  m1_earlier_end = math.max(m1_earlier_end - math.max(m1_earlier_start - now, 0), 0)
  m1_later_end = math.max(m1_later_end - (m1_later_start - now), 0)
  m1_earlier_start, m1_later_start, repaired = 0, now, true
end
repeat
  -- First once for each generation that has ended, in the order of their ends.
  local cost, now, state, has_ended = cost, now, m1_rewritten or state, false
  if m1_later_held > 0 and m1_later_end <= now
    or m1_earlier_held > 0 and m1_earlier_end <= now then
    has_ended = true
    if m1_later_held > 0 and m1_later_end <= now
      and not (m1_earlier_held > 0 and m1_earlier_end <= m1_later_end) then
      cost, now, m1_later_held = m1_later_held, m1_later_end, 0
    else
      cost, now, m1_earlier_held = m1_earlier_held, m1_earlier_end, 0
    end
  else
    cost = cost + m1_earlier_held + m1_later_held
  end
  m1_tick_now = now
  if m1_tick_micros > 1 then m1_tick_now = math.floor(now / m1_tick_micros) end
  if m1_id ~= m1_own_id then
    local checksum = (function()
      -- checksum.lua
      return function(...)
        local sum = 0
        for _, number in ipairs({ ... }) do
          sum = (sum * 31 + number % 4294967291) % 4294967291
        end
        return sum
      end
    end)()
    local pack_only = function()
      local capacity, per_unit, per_tick = m1_capacity_parts, m1_parts_per_unit, m1_parts_per_tick
      return struct.pack('<dddI4I4', capacity, per_unit, per_tick, m1_tick_micros,
        checksum(m1_own_id, capacity, per_unit, per_tick, m1_tick_micros))
    end
    if not state then
      m1_id, m1_tail, dirty = m1_own_id, pack_only(), true
    else
      -- The last cost was admitted under another plan, or there are several.
      local plans = (function()
        -- plans.lua
        local plans = {}

        -- Fails unless all are numbers that a script has written: whole, not negative, and exact
        -- as doubles.
        function plans.check(...)
          for _, number in ipairs({ ... }) do
            if not (number >= 0 and number < 2 ^ 54 and number % 1 == 0) then
              error('UNREADABLE state')
            end
          end
        end

        -- Reads what is kept of further plans: all zeros if there are none.
        function plans.read_further(units, stamp, expires_at, span)
          plans.check(units, stamp, expires_at, span)
          if expires_at > 0 then
            plans.further = { units = units, stamp = stamp, expires_at = expires_at, span = span }
          end
        end

        -- The numbers that `read_further` reads back.
        function plans.further_numbers()
          local further = plans.further or { units = 0, stamp = 0, expires_at = 0, span = 0 }
          return further.units, further.stamp, further.expires_at, further.span
        end

        -- Finds the plan of the caller: the one of which `is_own` holds.
        function plans.find(is_own)
          for _, plan in ipairs({ plans.latest, plans.other }) do
            if is_own(plan) then
              plans.own = plan
              return
            end
          end
        end

        -- How far the caller's plan is ahead of now; if it has not counted, how far its first
        -- count is.
        function plans.ahead()
          if plans.own then return plans.stamp_of(plans.own) - now end
          return math.max(
            plans.stamp_of(plans.latest), plans.further and plans.further.stamp or 0) - now
        end

        -- The clock has stepped back: moves everything that is ahead to now.
        function plans.move_back()
          local further = plans.further
          if further and further.stamp > now then
            further.stamp = now
            further.expires_at = math.max(math.min(further.expires_at, now + further.span), 1)
          end
          for _, plan in ipairs({ plans.latest, plans.other }) do
            local stamp = plans.stamp_of(plan)
            if stamp > now then
              plans.move_to_now(plan)
              plan.expires_at = math.max(plan.expires_at - (stamp - plans.stamp_of(plan)), 0)
            end
          end
        end

        -- The caller's plan has admitted a cost and becomes the latest: chooses the other plan,
        -- and returns it. Of two plans the one that matters longer is kept.
        function plans.choose_other()
          local latest, other, further = plans.latest, plans.other, plans.further
          if further and further.expires_at <= now then further = nil end
          if plans.own ~= latest then
            latest.expires_at = plans.expiry_of(latest)
            if not plans.own and other and other.expires_at > now then
              local dropped = latest
              if dropped.expires_at > other.expires_at then other, dropped = dropped, other end
              if dropped.expires_at > now then
                local stamp, expires_at = plans.stamp_of(dropped), dropped.expires_at
                further = further or { units = 0, stamp = 0, expires_at = 0, span = 0 }
                further = {
                  units = math.max(further.units, plans.units_of(dropped)),
                  stamp = math.max(further.stamp, stamp),
                  expires_at = math.max(further.expires_at, expires_at),
                  span = math.max(further.span, expires_at - stamp),
                }
              end
            else
              other = latest
            end
          end
          if other and other.expires_at <= now then other = nil end
          plans.other, plans.further = other, further
          return other
        end

        -- Whether any plan but the latest is to be kept.
        function plans.are_several()
          return plans.other ~= nil or plans.further ~= nil
        end

        -- The microsecond from which on no plan's count matters.
        function plans.expire_at()
          local other, further = plans.other, plans.further
          return math.max(plans.expiry_of(plans.latest), other and other.expires_at or 0,
            further and further.expires_at or 0)
        end

        return plans
      end)()
      plans.pack_only = pack_only
      local plan = function(...)
        plans.check(...)
        local id, capacity, per_unit, per_tick, tick_micros, debt, debt_tick, expires_at = ...
        if id == 0 or per_unit == 0 or tick_micros == 0 then error('UNREADABLE state') end
        return {
          id = id, capacity = capacity, per_unit = per_unit, per_tick = per_tick,
          tick_micros = tick_micros, debt = debt, debt_tick = debt_tick, expires_at = expires_at,
        }
      end
      local tail = string.sub(state, m1_tail_at, m1_tail_end)
      if m1_id ~= 0 then
        local capacity, per_unit, per_tick, tick_micros, sum = struct.unpack('<dddI4I4', tail)
        if sum ~= checksum(m1_id, capacity, per_unit, per_tick, tick_micros) then
          error('UNREADABLE state')
        end
        plans.latest =
          plan(m1_id, capacity, per_unit, per_tick, tick_micros, m1_debt, m1_debt_tick, 0)
      else
        if #tail ~= 144 then error('UNREADABLE state') end
        local n = { struct.unpack('<dddddddddddddddddd', tail) }
        if n[18] ~= checksum(m1_debt, m1_debt_tick, unpack(n, 1, 17)) then
          error('UNREADABLE state')
        end
        plans.latest = plan(n[1], n[2], n[3], n[4], n[5], m1_debt, m1_debt_tick, 0)
        if n[6] ~= 0 then plans.other = plan(unpack(n, 6, 13)) end
        plans.read_further(n[14], n[15], n[16], n[17])
      end
      plans.find(function(plan) return plan.id == m1_own_id end)
      plans.units_of = function(plan)
        local part = plan.debt % plan.per_unit
        return (plan.debt - part) / plan.per_unit + (part > 0 and 1 or 0)
      end
      plans.stamp_of = function(plan) return plan.debt_tick * plan.tick_micros end
      plans.move_to_now = function(plan) plan.debt_tick = math.floor(now / plan.tick_micros) end
      plans.expiry_of = function(plan)
        local ticks = plan.per_tick > 0 and math.ceil(plan.debt / plan.per_tick) or 0
        -- A debit may owe more than can ever be paid.
        return math.min((plan.debt_tick + ticks) * plan.tick_micros, 2 ^ 54 - 2)
      end
      plans.debt_now = function(plan)
        local tick_now = math.max(math.floor(now / plan.tick_micros), plan.debt_tick)
        return math.max(plan.debt + (plan.debt_tick - tick_now) * plan.per_tick, 0), tick_now
      end
      plans.pack = function()
        local latest, other = plans.latest, plans.other
        other = other or {
          id = 0, capacity = 0, per_unit = 0, per_tick = 0, tick_micros = 0,
          debt = 0, debt_tick = 0, expires_at = 0,
        }
        local n = {
          latest.id, latest.capacity, latest.per_unit, latest.per_tick, latest.tick_micros,
          other.id, other.capacity, other.per_unit, other.per_tick, other.tick_micros,
          other.debt, other.debt_tick, other.expires_at,
          plans.further_numbers()
        }
        n[18] = checksum(latest.debt, latest.debt_tick, unpack(n))
        return struct.pack('<dddddddddddddddddd', unpack(n))
      end
      local span = m1_parts_per_tick > 0 and math.ceil(m1_capacity_parts / m1_parts_per_tick) or 0
      if math.floor((now + plans.ahead()) / m1_tick_micros) > m1_tick_now + span then
        plans.move_back()
        repaired = true
        if m1_id == 0 then m1_tail = plans.pack() end
      end
      if plans.own then
        m1_debt, m1_debt_tick = plans.own.debt, plans.own.debt_tick
      elseif plans.further then
        -- It may be one of the further plans: the same units, owed at the latest stamp, or so
        -- early that they are paid off when they expire.
        local further = plans.further
        m1_debt = math.min(further.units * m1_parts_per_unit, m1_capacity_parts)
        local ticks = m1_parts_per_tick > 0 and math.floor(m1_debt / m1_parts_per_tick) or 0
        m1_debt_tick = math.min(math.ceil(further.stamp / m1_tick_micros),
          math.max(math.ceil(further.expires_at / m1_tick_micros) - ticks, 0))
      else
        -- It takes over the debt of the latest plan, in parts of its own.
        local divisor, rest = m1_parts_per_unit, plans.latest.per_unit
        while rest > 0 do
          divisor, rest = rest, math.fmod(divisor, rest)
        end
        m1_debt = math.ceil(
          plans.latest.debt * (m1_parts_per_unit / divisor) / (plans.latest.per_unit / divisor)
        )
        m1_debt = math.min(m1_debt, 2 ^ 53 - 1)
        m1_debt_tick =
          math.floor(plans.latest.debt_tick * plans.latest.tick_micros / m1_tick_micros)
      end
      m1_plans = plans
    end
  elseif m1_debt >= 2 ^ 53 then
    -- A debit may owe more than the capacity, but no more than is exact.
    error('UNREADABLE state')
  end
  m1_debt_now = m1_debt + (m1_debt_tick - m1_tick_now) * m1_parts_per_tick
  if m1_debt_tick > m1_tick_now then
    -- The clock has stepped back: nothing is paid off meanwhile. A debt too far ahead is moved to
    -- now.
    m1_debt_now = m1_debt
    local span = m1_parts_per_tick > 0 and math.ceil(m1_capacity_parts / m1_parts_per_tick) or 0
    if not m1_plans and m1_debt_tick > m1_tick_now + span then
      m1_debt_tick, repaired = m1_tick_now, true
    end
    m1_tick_now = m1_debt_tick
  elseif m1_debt_now < 0 then
    m1_debt_now = 0
  end
  m1_debt_after = m1_debt_now + cost * m1_parts_per_unit
  m1_fits = m1_debt_after <= m1_capacity_parts or cost == 0
  if has_ended then
    do
      if m1_debt_after >= 2 ^ 53 then m1_debt_after = 2 ^ 53 - 1 end
      -- What is never paid back is not owed.
      if m1_parts_per_tick == 0 then m1_debt_after = m1_debt_now end
      m1_debt, m1_debt_tick = m1_debt_after, m1_tick_now
      if m1_plans then
        local plans = m1_plans
        local other = plans.choose_other()
        if other then
          -- What another plan admits fills the bucket at most.
          local debt, tick_now = plans.debt_now(other)
          other.debt = math.min(debt + cost * other.per_unit, math.max(other.capacity, debt))
          other.debt_tick = tick_now
        end
        plans.latest = {
          id = m1_own_id, capacity = m1_capacity_parts, per_unit = m1_parts_per_unit,
          per_tick = m1_parts_per_tick, tick_micros = m1_tick_micros,
          debt = m1_debt, debt_tick = m1_debt_tick,
        }
        dirty = true
        if plans.are_several() then
          m1_id, m1_tail = 0, plans.pack()
        else
          m1_id, m1_tail = m1_own_id, plans.pack_only()
        end
      end
    end
    if m1_plans then
      m1_debt, m1_debt_tick = m1_plans.latest.debt, m1_plans.latest.debt_tick
      m1_expires_at = m1_plans.expire_at()
    elseif m1_parts_per_tick == 0 then
      m1_expires_at = m1_debt_tick * m1_tick_micros
    else
      -- One tick more: the sum may lose the fraction of a tick.
      m1_expires_at = m1_debt_tick + m1_debt / m1_parts_per_tick + 1
      if m1_tick_micros > 1 then
        m1_expires_at = math.min(math.ceil(m1_expires_at - 1) * m1_tick_micros, 2 ^ 54 - 2)
      end
    end
    m1_tick_now, m1_plans, m1_debt_now, m1_debt_after, m1_fits = nil
    m1_admitted_tick, m1_admitted_debt, m1_expires_at = nil
    if m1_tail then m1_rewritten, m1_tail_at, m1_tail_end = m1_tail, 1, #m1_tail end
    repaired, dirty, ended = true, true, true
  end
until not has_ended
m1_fits = m1_fits or cost == 0

local charged = m1_fits and cost > 0
if charged then
  -- m1: charge
  m1_hold_at = now
  if m1_later_start > now then m1_hold_at = m1_later_start end
  if m1_hold_at + m1_held_at_most >= m1_later_end then
    if m1_earlier_held > 0 and m1_later_held > 0 then
      -- Another plan holds for longer: both generations still run.
      m1_later_end = m1_hold_at + m1_held_at_most
    else
      if m1_later_held > 0 then
        m1_earlier_start, m1_earlier_end = m1_later_start, m1_later_end
        m1_earlier_held = m1_later_held
      end
      -- No two generations begin at the same instant.
      m1_later_start = math.max(m1_hold_at, m1_later_start + 1)
      m1_later_end = m1_hold_at + m1_generation_time
      m1_later_held = 0
    end
  end
  m1_later_held = m1_later_held + cost
  m1_generation_start = m1_later_start
end

if charged or repaired then
  -- m1: when does its state expire?
  if m1_plans then
    m1_debt, m1_debt_tick = m1_plans.latest.debt, m1_plans.latest.debt_tick
    m1_expires_at = m1_plans.expire_at()
  elseif m1_parts_per_tick == 0 then
    m1_expires_at = m1_debt_tick * m1_tick_micros
  else
    -- One tick more: the sum may lose the fraction of a tick.
    m1_expires_at = m1_debt_tick + m1_debt / m1_parts_per_tick + 1
    if m1_tick_micros > 1 then
      m1_expires_at = math.min(math.ceil(m1_expires_at - 1) * m1_tick_micros, 2 ^ 54 - 2)
    end
  end
  if m1_earlier_held > 0 and m1_earlier_end > m1_expires_at then m1_expires_at = m1_earlier_end end
  if m1_later_held > 0 and m1_later_end > m1_expires_at then m1_expires_at = m1_later_end end
  if m1_earlier_held + m1_later_held > 0 then m1_expires_at = m1_expires_at + m1_matters_for end
  -- Write.
  local kept = struct.pack('<Bddddddddd', 1, now, m1_debt, m1_debt_tick, m1_earlier_start,
    m1_earlier_end, m1_earlier_held, m1_later_start, m1_later_end, m1_later_held)
  if m1_expires_at >= key_expires_at or repaired or dirty then
    local longer = 0
    if m1_expires_at > now then longer = (m1_expires_at - now) / 64 + 1000000 end
    key_expires_at = math.ceil(m1_expires_at + longer)
    local whole = kept .. struct.pack('<dd', key_expires_at, m1_id)
    local milliseconds = string.format('%d', math.max(math.ceil(key_expires_at / 1000), 1))
    if state and not m1_tail then
      call('SETRANGE', key, '0', whole)
      call(expire, key, milliseconds)
    else
      whole = whole .. (m1_tail or string.sub(state, m1_tail_at, m1_tail_end))
      call('SET', key, whole, 'PXAT', milliseconds)
    end
  else
    call('SETRANGE', key, '0', kept)
  end
end

-- m1: reply
m1_generation_start = m1_generation_start or 0
do
  local held = m1_earlier_held + m1_later_held
  m1_debt_now = m1_debt_now + held * m1_parts_per_unit
  if m1_debt_now >= 2 ^ 53 then m1_debt_now = 2 ^ 53 - 1 end
end
if charged then
  return struct.pack('<Bdddd', 1, now, m1_debt_now, m1_tick_now, m1_generation_start)
end
-- Nothing was charged.
local admits = 0
if m1_fits then admits = admits + 1 end
return struct.pack('<Bddddd', 0, now, admits, m1_debt_now, m1_tick_now, m1_generation_start)
