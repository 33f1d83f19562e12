// SPDX-License-Identifier: Apache-2.0

// Forwards between queue 0 of two ports, each with a UMEM of its own: this program copies frames between them.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/asavie/xdp"
	"github.com/vishvananda/netlink"
)

func open(name string) *xdp.Socket {
	link, err := netlink.LinkByName(name)
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	index := link.Attrs().Index
	program, err := xdp.NewProgram(1)
	if err != nil {
		log.Fatalf("%s: its XDP program: %v", name, err)
	}
	if err := program.Attach(index); err != nil {
		log.Fatalf("%s: its XDP program: %v", name, err)
	}
	socket, err := xdp.NewSocket(index, 0, &xdp.SocketOptions{
		NumFrames: 4096, FrameSize: 2048,
		FillRingNumDescs: 2048, CompletionRingNumDescs: 2048, RxRingNumDescs: 2048, TxRingNumDescs: 2048,
	})
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	if err := program.Register(0, socket.FD()); err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return socket
}

func forward(from, to *xdp.Socket) {
	to.Complete(to.NumCompleted())
	received := from.Receive(from.NumReceived())
	free := to.GetDescs(min(len(received), to.NumFreeTxSlots()))
	for i := range free {
		free[i].Len = uint32(copy(to.GetFrame(free[i]), from.GetFrame(received[i])))
	}
	if len(free) > 0 || to.NumTransmitted() > 0 { // a call sends 32 in copy mode
		to.Transmit(free)
	}
	from.Fill(from.GetDescs(from.NumFreeFillSlots()))
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hop PORT PORT")
		os.Exit(1)
	}
	one, other := open(os.Args[1]), open(os.Args[2])
	for {
		forward(one, other)
		forward(other, one)
	}
}
