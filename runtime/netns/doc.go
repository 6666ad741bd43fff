// Package netns is the runtime "netns": a container is a network namespace and no more. Its traffic is driven by a
// process outside, through sockets that were opened inside.
package netns
