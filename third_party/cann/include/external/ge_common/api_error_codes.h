// What the headers of data transfer take from the graph interface: its texts. Programs count on the streams that come along.
#pragma once

#include <iostream>

#include "graph/ascend_string.h"
