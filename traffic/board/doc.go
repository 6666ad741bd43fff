// Package board passes the turn between processes of one machine, with words to wait on (futexes) in shared memory.
package board
