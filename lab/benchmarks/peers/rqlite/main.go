// The client of rqlite's servers: each value becomes a row of a table, by one request to the leader.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"load"
)

const put = "INSERT OR REPLACE INTO kv(k, v) VALUES(?, ?)"

func main() {
	peers := flag.String("peers", "", "HTTP addresses of all servers")
	work := load.Flags()
	flag.Parse()

	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = work.Window
	client := &http.Client{Timeout: 10 * time.Second}
	leader := leaderOf(client, strings.Split(*peers, ","))
	for execute(client, leader, []any{"CREATE TABLE IF NOT EXISTS kv(k TEXT PRIMARY KEY, v TEXT)"}) != nil {
		time.Sleep(50 * time.Millisecond)
	}
	var keys atomic.Int64
	work.Run(func(_ int, value []byte) error {
		text := strings.Repeat("v", len(value))
		return execute(client, leader, []any{put, fmt.Sprintf("%08d", keys.Add(1)), text})
	})
}

func execute(client *http.Client, leader string, statement []any) error {
	body, err := json.Marshal([]any{statement})
	if err != nil {
		return err
	}
	answer, err := client.Post("http://"+leader+"/db/execute", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"error"`))) {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}

// leaderOf waits until one of the servers leads all of them; asking it saves each value a hop.
func leaderOf(client *http.Client, peers []string) string {
	for {
		for _, peer := range peers {
			var status struct {
				Store struct {
					Raft struct {
						State string `json:"state"`
					} `json:"raft"`
					Nodes []any `json:"nodes"`
				} `json:"store"`
			}
			answer, err := client.Get("http://" + peer + "/status")
			if err != nil {
				continue
			}
			err = json.NewDecoder(answer.Body).Decode(&status)
			answer.Body.Close()
			if err == nil && status.Store.Raft.State == "Leader" && len(status.Store.Nodes) == len(peers) {
				return peer
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}
