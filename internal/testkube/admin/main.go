package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	policies "sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	adminclient "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned"
	admininformers "sigs.k8s.io/network-policy-api/pkg/client/informers/externalversions"
)

// queue is the number of the queue of packets, which package testkube fills.
const queue = 100

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: admin NODE KUBECONFIG")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := hurry(); err != nil {
		fmt.Fprintf(os.Stderr, "admin: %v\n", err)
	}
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "admin: %v\n", err)
		os.Exit(1)
	}
}

// urgent is the nice value of the process. Packets wait for it as they wait for the kernel on other nodes, which does
// not wait for a CPU behind kubelet and pods.
const urgent = -15

// hurry has all threads of the process come before others of the node. Threads that they start inherit that.
func hurry() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, one := range threads {
		id, err := strconv.Atoi(one.Name())
		if err != nil {
			return err
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, urgent); err != nil {
			return fmt.Errorf("raise the priority: %w", err)
		}
	}
	return nil
}

func run(ctx context.Context, node, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	admin, err := adminclient.NewForConfig(config)
	if err != nil {
		return err
	}
	all, cluster := informers.NewSharedInformerFactory(client, 0), admininformers.NewSharedInformerFactory(admin, 0)
	c, err := policies.NewController(client, all.Networking().V1().NetworkPolicies(), all.Core().V1().Namespaces(),
		all.Core().V1().Pods(), all.Core().V1().Nodes(), admin, cluster.Policy().V1alpha1().AdminNetworkPolicies(),
		cluster.Policy().V1alpha1().BaselineAdminNetworkPolicies(), policies.Config{
			AdminNetworkPolicy: true, BaselineAdminNetworkPolicy: true, QueueID: queue, NodeName: node,
		})
	if err != nil {
		return err
	}
	all.Start(ctx.Done())
	cluster.Start(ctx.Done())
	go widen(ctx)
	if err := c.Run(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return errors.New("the controller has ended")
	}
	return nil
}

// buffer is how many bytes of packets may wait for the controller. Otherwise its sockets have net.core.rmem_default,
// which is too little for the packets of a proof on a busy machine: the kernel then drops some.
const buffer = 32 << 20

// widen widens the buffers of the controller's sockets to netfilter as soon as it has opened them. The controller has no
// setting for that.
func widen(ctx context.Context) {
	for wide := map[int]bool{}; len(wide) < sockets; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			continue
		}
		for _, one := range open {
			fd, err := strconv.Atoi(one.Name())
			if err != nil || wide[fd] {
				continue
			}
			if protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil ||
				protocol != unix.NETLINK_NETFILTER {
				continue
			}
			if domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_NETLINK {
				continue
			}
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer); err != nil {
				fmt.Fprintf(os.Stderr, "admin: widen a buffer: %v\n", err)
				continue
			}
			wide[fd] = true
			if err := lengthen(fd); err != nil {
				fmt.Fprintf(os.Stderr, "admin: lengthen a queue: %v\n", err)
			}
		}
	}
}

// waiting is how many packets may wait for the controller's verdict, which sets 1024.
const waiting = 1 << 16

// lengthen has more packets wait in the queue of a socket (struct nfgenmsg and NFQA_CFG_QUEUE_MAXLEN of
// linux/netfilter/nfnetlink_queue.h). A socket of another queue has no right to that.
func lengthen(fd int) error {
	time.Sleep(settled)
	message := make([]byte, 28)
	binary.NativeEndian.PutUint32(message[0:], uint32(len(message)))
	binary.NativeEndian.PutUint16(message[4:], unix.NFNL_SUBSYS_QUEUE<<8|2) // NFQNL_MSG_CONFIG
	binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST)
	binary.BigEndian.PutUint16(message[18:], queue)
	binary.NativeEndian.PutUint16(message[20:], 8)
	binary.NativeEndian.PutUint16(message[22:], 3) // NFQA_CFG_QUEUE_MAXLEN
	binary.BigEndian.PutUint32(message[24:], waiting)
	return unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// settled is how long the controller takes at most from opening a socket to its own settings. The kernel does not show
// the length of a queue (/proc/net/netfilter/nfnetlink_queue), so nothing can be waited for.
const settled = 500 * time.Millisecond

// sockets is how many sockets to netfilter the controller has: those of packets and of answers of DNS.
const sockets = 2
