// Package golden compares long expected texts with files, and rewrites these files with the flag -update.
package golden
