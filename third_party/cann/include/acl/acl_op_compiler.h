// CANN's interface: what clients include by its name, operators that are compiled when they are called.
#pragma once

#include "acl_op.h"
