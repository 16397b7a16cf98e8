// A pod's first process, which lives as long as the pod and buries its dead; with an argument, one that waits until
// that name has an address.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		for tries := 0; tries < 300; tries++ {
			if _, err := net.LookupHost(os.Args[1]); err == nil {
				return
			}
			time.Sleep(time.Second)
		}
		fmt.Fprintln(os.Stderr, os.Args[1], "has no address")
		os.Exit(1)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for got := range signals {
		if got != syscall.SIGCHLD {
			return
		}
		for pid := 1; pid > 0; pid, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil) {
		}
	}
}
