#include "suite.h"
