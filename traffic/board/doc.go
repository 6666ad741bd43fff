// Package board passes the turn between processes of one machine: words to wait on (futexes) in memory that they share.
package board
