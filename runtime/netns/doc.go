// Package netns is the runtime "netns": a container is only a network namespace. A process outside drives its traffic
// through sockets that were opened inside.
package netns
