-- Decides about a cost: charges it if all limits have room for it.
--
-- m1       a limit; state layout: `sliding`
-- KEYS[1]  the state of m1
-- ARGV[1]  doubles: cost, m1_units, m1_period, m1_tick_micros, m1_ticks
-- Reply    charged: a byte 1, then doubles: now, m1_stamp, m1_previous, m1_current
--          not charged: a byte 0, then doubles: now, 1 if m1 admits, m1_stamp_now, m1_previous_now,
--            m1_current_now
-- Writes   KEYS[1], if it charges or repairs the state: a byte 1, then doubles: now, m1_stamp,
--            m1_previous, m1_current, key_expires_at, m1_id;
--          then m1_tail;
--          expires at key_expires_at
-- Error    UNREADABLE, if a key has a value that no script wrote

local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local m1_tail, m1_tail_at, m1_tail_end, m1_plans, m1_stamp_now, m1_start, m1_previous_now,
  m1_current_now, m1_covered, m1_fits, m1_expires_at
local cost, m1_units, m1_period, m1_tick_micros, m1_ticks = struct.unpack('<ddddd', numbers)

-- The time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The state: all zeros if there is none.
local state = call('GET', key)
m1_tail_at, m1_tail_end = 50, 49
if state and #state ~= 49 then
  if #state < 49 then return redis.error_reply('UNREADABLE state') end
  local tail_end = 49
  m1_tail_at = tail_end + 1
  tail_end = tail_end + (struct.unpack('<d', state, 42) == 0 and 88 or 0)
  m1_tail_end = tail_end
  if #state ~= tail_end then return redis.error_reply('UNREADABLE state') end
end
local m1_stamp, m1_previous, m1_current, key_expires_at, m1_id
  = struct.unpack('<ddddd', state or string.rep('\0', 49), 10)
if not (m1_stamp >= 0 and m1_previous >= 0 and m1_current >= 0 and key_expires_at >= 0
  and m1_stamp + m1_previous + m1_current + key_expires_at < 2 ^ 58
  and m1_stamp % 1 + m1_previous % 1 + m1_current % 1 + key_expires_at % 1 == 0) then
  return redis.error_reply('UNREADABLE state')
end

-- m1: has the cost room?
if m1_id ~= m1_period then
  if not state then
    m1_id, m1_tail, dirty = m1_period, '', true
  else
    -- The last cost was admitted under another plan, or there are several.
    local plans, checksum = (function()
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
    end)(), (function()
      -- checksum.lua
      return function(...)
        local sum = 0
        for _, number in ipairs({ ... }) do
          sum = (sum * 31 + number % 4294967291) % 4294967291
        end
        return sum
      end
    end)()
    local plan = function(id, stamp, previous, current, expires_at)
      plans.check(id, stamp, previous, current, expires_at)
      if id == 0 then error('UNREADABLE state') end
      return {
        id = id, period = id, stamp = stamp, previous = previous, current = current,
        expires_at = expires_at,
      }
    end
    if m1_id ~= 0 then
      plans.latest = plan(m1_id, m1_stamp, m1_previous, m1_current, 0)
    else
      local tail = string.sub(state, m1_tail_at, m1_tail_end)
      if #tail ~= 88 then error('UNREADABLE state') end
      local n = { struct.unpack('<ddddddddddd', tail) }
      if n[11] ~= checksum(m1_stamp, m1_previous, m1_current, unpack(n, 1, 10)) then
        error('UNREADABLE state')
      end
      plans.latest = plan(n[1], m1_stamp, m1_previous, m1_current, 0)
      if n[2] ~= 0 then plans.other = plan(n[2], n[3], n[4], n[5], n[6]) end
      plans.read_further(n[7], n[8], n[9], n[10])
    end
    plans.find(function(plan) return plan.id == m1_period end)
    plans.units_of = function(plan)
      return math.min(plan.previous + plan.current, 2 ^ 53 - 2 ^ 32)
    end
    plans.stamp_of = function(plan) return plan.stamp end
    plans.move_to_now = function(plan)
      -- Now is elsewhere in its window: the whole estimate becomes the count of the running one.
      local covered = plan.period - plan.stamp % plan.period
      plan.current =
        math.min(plan.current + math.ceil(plan.previous * covered / plan.period), 2 ^ 53 - 2 ^ 32)
      plan.stamp, plan.previous = now, 0
    end
    plans.expiry_of = function(plan)
      if plan.previous + plan.current == 0 then return plan.stamp end
      return plan.stamp - plan.stamp % plan.period + plan.period * (plan.current > 0 and 2 or 1)
    end
    plans.running = function(plan)
      local stamp = math.max(now, plan.stamp)
      local start = stamp - stamp % plan.period
      if plan.stamp >= start then return stamp, plan.previous, plan.current end
      return stamp, plan.stamp + plan.period >= start and plan.current or 0, 0
    end
    plans.pack = function()
      local latest, other = plans.latest, plans.other
      other = other or { id = 0, stamp = 0, previous = 0, current = 0, expires_at = 0 }
      local n = {
        latest.id, other.id, other.stamp, other.previous, other.current,
        other.expires_at, plans.further_numbers()
      }
      n[11] = checksum(latest.stamp, latest.previous, latest.current, unpack(n))
      return struct.pack('<ddddddddddd', unpack(n))
    end
    if plans.ahead() > 2 * m1_period then
      plans.move_back()
      repaired = true
      if m1_id == 0 then m1_tail = plans.pack() end
    end
    if plans.own then
      m1_stamp, m1_previous, m1_current = plans.own.stamp, plans.own.previous, plans.own.current
    elseif plans.further then
      -- It may be one of the further plans: all units in one window, no earlier than any of theirs.
      local further = plans.further
      local periods = math.max(math.ceil(further.expires_at / m1_period) - 2, 0)
      m1_stamp = math.min(further.stamp, periods * m1_period)
      m1_previous, m1_current = 0, math.min(further.units, m1_units)
    else
      m1_stamp, m1_previous, m1_current =
        plans.latest.stamp, plans.latest.previous, plans.latest.current
    end
    m1_plans = plans
  end
elseif m1_stamp > now + 2 * m1_period then
  -- The clock has stepped back, and now is elsewhere in its window: the whole estimate becomes the
  -- count of the running one.
  local covered = m1_ticks - math.floor(m1_stamp % m1_period / m1_tick_micros)
  m1_current = m1_current + math.ceil(m1_previous * covered / m1_ticks)
  m1_stamp, m1_previous = now, 0
  repaired = true
end
m1_stamp_now = now
if m1_stamp > now then m1_stamp_now = m1_stamp end
m1_start = m1_stamp_now - m1_stamp_now % m1_period
m1_previous_now, m1_current_now = m1_previous, m1_current
if m1_stamp < m1_start then
  m1_previous_now, m1_current_now = m1_current, 0
  if m1_stamp + m1_period < m1_start then m1_previous_now = 0 end
end
m1_covered = m1_ticks - math.floor((m1_stamp_now - m1_start) / m1_tick_micros)
m1_fits = m1_previous_now * m1_covered <= (m1_units - m1_current_now - cost) * m1_ticks or cost == 0

local charged = m1_fits and cost > 0
if charged then
  -- m1: charge
  m1_stamp, m1_previous, m1_current = m1_stamp_now, m1_previous_now, m1_current_now + cost
  if m1_plans then
    local plans = m1_plans
    local other = plans.choose_other()
    if other then
      other.stamp, other.previous, other.current = plans.running(other)
      other.current = math.min(other.current + cost, 2 ^ 53 - 2 ^ 32)
    end
    plans.latest = {
      id = m1_period, period = m1_period,
      stamp = m1_stamp, previous = m1_previous, current = m1_current,
    }
    dirty = true
    if plans.are_several() then
      m1_id, m1_tail = 0, plans.pack()
    else
      m1_id, m1_tail = m1_period, ''
    end
  end
end

if charged or repaired then
  -- m1: when does its state expire?
  if m1_plans then
    m1_stamp, m1_previous, m1_current =
      m1_plans.latest.stamp, m1_plans.latest.previous, m1_plans.latest.current
    m1_expires_at = m1_plans.expire_at()
  else
    m1_expires_at = m1_stamp - m1_stamp % m1_period + m1_period
    if m1_current > 0 then m1_expires_at = m1_expires_at + m1_period end
  end
  -- Write.
  local kept = struct.pack('<Bdddd', 1, now, m1_stamp, m1_previous, m1_current)
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
  if charged then return kept end
end

-- Nothing was charged.
local admits = 0
if m1_fits then admits = admits + 1 end
return struct.pack('<Bddddd', 0, now, admits, m1_stamp_now, m1_previous_now, m1_current_now)
