-- Sends GET requests for a random one of DEVICES devices. QUERY is the path, with %d for the number of the device.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local path, devices = os.getenv("QUERY"), tonumber(os.getenv("DEVICES"))

function init()
    wrk.headers["Authorization"] = sessions()[1]
    math.randomseed(seed)
end

function request()
    return wrk.format("GET", (path:gsub("%%d", math.random(devices))))
end
