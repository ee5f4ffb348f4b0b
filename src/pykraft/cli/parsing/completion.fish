function %(complete_func)s
    set -l option (string match --regex -- '^--[^=]+=' (commandline -ct); or echo)
    for line in (env COMP_LINE=(commandline -cp | string collect) %(complete_var)s=fish_complete %(prog_name)s)
        set -l fields (string split --max 2 \t -- $line)
        switch $fields[1]
            case dir
                for path in (__fish_complete_directories $fields[2])
                    echo -- $option$path
                end
            case file
                for path in (__fish_complete_path $fields[2])
                    echo -- $option$path
                end
            case plain
                echo -- $fields[2]\t$fields[3]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
