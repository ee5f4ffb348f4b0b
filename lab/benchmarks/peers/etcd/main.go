// etcd's server, and a client that puts values through its own library.
//
// With -window it is the client, of the servers in -peers; otherwise all arguments are etcd's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdmain"

	"load"
)

const connectionsMax = 16

func main() {
	if !slices.Contains(os.Args, "-window") {
		etcdmain.Main(os.Args)
		return
	}
	peers := flag.String("peers", "", "URLs of all servers for clients")
	work := load.Flags()
	flag.Parse()

	leader := leaderOf(strings.Split(*peers, ","))
	clients := make([]*clientv3.Client, min(connectionsMax, work.Window))
	for index := range clients {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{leader}, DialTimeout: 5 * time.Second})
		if err != nil {
			load.Fail(err)
		}
		clients[index] = client
	}
	var keys atomic.Int64
	work.Run(func(caller int, value []byte) error {
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		key := fmt.Sprintf("%08d", keys.Add(1))
		_, err := clients[caller%len(clients)].Put(limited, key, string(value))
		return err
	})
}

// leaderOf waits until one of the servers leads; its address saves each value a hop.
func leaderOf(endpoints []string) string {
	for {
		for _, endpoint := range endpoints {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: time.Second})
			if err != nil {
				continue
			}
			limited, cancel := context.WithTimeout(context.Background(), time.Second)
			status, err := client.Status(limited, endpoint)
			cancel()
			client.Close()
			if err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId {
				return endpoint
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}
