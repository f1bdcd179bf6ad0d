// Included by ProcessGroupGloo.hpp, which uses nothing of it; see README.md of this folder.
#pragma once
