-- participant1 of a random conversation (see seed.sql) writes into it.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local tokens

function init()
    tokens = sessions()
    math.randomseed(seed)
end

function request()
    local id = math.random(100000)
    local n = id % 10000 + 1
    return wrk.format("POST", "/api/chat/conversations/" .. id .. "/messages",
        { Authorization = tokens[n], ["Content-Type"] = "application/json" },
        '{"username":"u' .. n .. '@bench.test","chatEntry":"The inverter reports 4,812 kWh for ' ..
        'March; is that plausible for this site?"}')
end
