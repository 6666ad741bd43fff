// Package shm makes memory that a process shares with its descendants.
package shm
