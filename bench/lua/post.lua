-- participant1 of a random conversation (see seed.sql) writes into it. This script assembles the request itself,
-- because wrk.format() takes twice the CPU time, and wrk shares the processors with the server.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local text = '@bench.test","chatEntry":"The inverter reports 4,812 kWh for March; is that plausible ' ..
    'for this site?"}'
local tokens, head

function init()
    tokens = sessions()
    head = "/messages HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port ..
        "\r\nContent-Type: application/json\r\n"
    math.randomseed(seed)
end

function request()
    local id = math.random(100000)
    local n = id % 10000 + 1
    local body = '{"username":"u' .. n .. text
    local token = tokens[n] and "Authorization: " .. tokens[n] .. "\r\n" or ""
    return "POST /api/chat/conversations/" .. id .. head .. token .. "Content-Length: " .. #body ..
        "\r\n\r\n" .. body
end
