// One node of dragonboat with the tan log, which syncs every append. Node 1 leads and proposes.
package main

import (
	"context"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/plugin/tan"
	"github.com/lni/dragonboat/v4/statemachine"

	"load"
)

const shard = 1

// machine applies nothing: what is measured is the log.
type machine struct{}

func (machine) Update(statemachine.Entry) (statemachine.Result, error) {
	return statemachine.Result{}, nil
}

func (machine) Lookup(any) (any, error) { return nil, nil }

func (machine) SaveSnapshot(io.Writer, statemachine.ISnapshotFileCollection, <-chan struct{}) error {
	return nil
}

func (machine) RecoverFromSnapshot(io.Reader, []statemachine.SnapshotFile, <-chan struct{}) error {
	return nil
}

func (machine) Close() error { return nil }

func main() {
	id := flag.Uint64("id", 0, "1 to the number of peers")
	peers := flag.String("peers", "", "host:port of all nodes")
	folder := flag.String("folder", "", "where its files go; must exist")
	work := load.Flags()
	flag.Parse()

	for _, name := range []string{"raft", "rsm", "transport", "grpc", "logdb", "dragonboat", "raftdb", "tan", "config"} {
		logger.GetLogger(name).SetLevel(logger.ERROR)
	}
	addresses := strings.Split(*peers, ",")
	members := map[uint64]dragonboat.Target{}
	for index, address := range addresses {
		members[uint64(index+1)] = address
	}
	host, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		NodeHostDir:    filepath.Join(*folder, "data"),
		RTTMillisecond: 20,
		RaftAddress:    addresses[*id-1],
		Expert:         config.ExpertConfig{LogDBFactory: tan.Factory},
	})
	check(err)
	check(host.StartReplica(members, false,
		func(uint64, uint64) statemachine.IStateMachine { return machine{} },
		config.Config{ReplicaID: *id, ShardID: shard, ElectionRTT: 10, HeartbeatRTT: 1, CheckQuorum: true}))
	if work.Window == 0 {
		select {}
	}
	for {
		leader, _, isKnown, err := host.GetLeaderID(shard)
		if err == nil && isKnown && leader == *id {
			break
		}
		if err == nil && isKnown {
			host.RequestLeaderTransfer(shard, *id)
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
	}
	session := host.GetNoOPSession(shard)
	work.Run(func(_ int, value []byte) error {
		limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := host.SyncPropose(limited, session, value)
		return err
	})
}

func check(err error) {
	if err != nil {
		load.Fail(err)
	}
}
