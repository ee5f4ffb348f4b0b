// One node of hashicorp/raft with raft-wal, which syncs every append. Node 1 leads and proposes.
package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"

	"load"
)

const (
	firstTimeout = 200 * time.Millisecond
	otherTimeout = 4 * time.Second // so that node 1 campaigns first
)

// machine applies nothing: what is measured is the log.
type machine struct{}

func (machine) Apply(*raft.Log) any { return nil }

func (machine) ApplyBatch(logs []*raft.Log) []any { return make([]any, len(logs)) }

func (machine) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no snapshots here") }

func (machine) Restore(io.ReadCloser) error { return nil }

func main() {
	id := flag.Int("id", 0, "1 to the number of peers")
	peers := flag.String("peers", "", "host:port of all nodes")
	folder := flag.String("folder", "", "where its files go; must exist")
	work := load.Flags()
	flag.Parse()

	addresses := strings.Split(*peers, ",")
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(strconv.Itoa(*id))
	config.MaxAppendEntries = 1024
	config.BatchApplyCh = true // as many values in one append as there are
	config.Logger = hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
	timeout := otherTimeout
	if work.Window > 0 {
		timeout = firstTimeout
		config.LeaderLeaseTimeout = firstTimeout
	}
	config.HeartbeatTimeout, config.ElectionTimeout = timeout, timeout

	store, err := wal.Open(*folder)
	check(err)
	transport, err := raft.NewTCPTransport(addresses[*id-1], nil, 3, 10*time.Second, io.Discard)
	check(err)
	servers := make([]raft.Server, len(addresses))
	for index, address := range addresses {
		servers[index] = raft.Server{ID: raft.ServerID(strconv.Itoa(index + 1)), Address: raft.ServerAddress(address)}
	}
	snapshots := raft.NewInmemSnapshotStore()
	check(raft.BootstrapCluster(config, store, store, snapshots, transport, raft.Configuration{Servers: servers}))
	node, err := raft.NewRaft(config, machine{}, store, store, snapshots, transport)
	check(err)

	if work.Window == 0 {
		for leads := range node.LeaderCh() {
			if leads { // node 1 was slow to start
				node.LeadershipTransferToServer(servers[0].ID, servers[0].Address)
			}
		}
	}
	for node.State() != raft.Leader {
		time.Sleep(10 * time.Millisecond)
	}
	work.Run(func(_ int, value []byte) error { return node.Apply(value, 10*time.Second).Error() })
}

func check(err error) {
	if err != nil {
		load.Fail(err)
	}
}
